"""`trawlnet web`: sites, page by page, as politely as they ask for."""
