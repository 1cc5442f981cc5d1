"""Archives as files: walk, search, count and check the segments that a crawl has left."""
