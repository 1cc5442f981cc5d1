"""A web page as bytes and values: URL, links, words, charset, robots.txt, sitemaps. Pure."""
