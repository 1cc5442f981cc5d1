"""trawlnet crawls whole networks: all of something, politely, durably, killed or not."""

__version__ = "0.1.0"
