"""What the shards of one crawl share in Redis: ownership, parts, caps and turns."""
