"""`trawlnet dashboard`: a page about the crawls of a workspace."""
