"""The state of a crawl: one contract, kept in memory, in LMDB or in Redis."""
