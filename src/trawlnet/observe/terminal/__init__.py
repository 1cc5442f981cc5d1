"""What a person sees of a running crawl: a live block, plain lines, or JSON lines."""
