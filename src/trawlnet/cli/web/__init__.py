"""`trawlnet web`: crawls web sites, as politely as they ask for."""
