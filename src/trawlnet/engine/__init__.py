"""The flow of a crawl; standard library only."""
