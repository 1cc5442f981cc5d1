"""Shows a running crawl on a terminal: a live block, plain lines, or JSON lines."""
