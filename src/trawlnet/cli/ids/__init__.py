"""`trawlnet ids`: keeps up with an API of sequential ids."""
