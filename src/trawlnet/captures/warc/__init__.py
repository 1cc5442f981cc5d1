"""Captures as WARC files, and the CDXJ index over them."""
