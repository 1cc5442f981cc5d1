"""The memory of a crawl: one contract, three materials."""
