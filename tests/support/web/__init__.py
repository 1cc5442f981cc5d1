"""Small webs to crawl, and what a crawl of one leaves behind."""
