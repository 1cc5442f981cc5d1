"""A fetched page at rest: bodies, the capture log, and the files derived from it."""
