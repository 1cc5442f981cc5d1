"""`trawlnet fleet`: look at a crawl that many processes share, steer it, and plan one."""
