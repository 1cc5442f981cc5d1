"""The same crawl on many machines: shards of lanes, each with one owner at a time."""
