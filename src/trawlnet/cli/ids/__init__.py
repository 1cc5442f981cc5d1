"""`trawlnet ids`: an API of sequential ids, kept up with."""
