"""`trawlnet pds`: every PDS, when it was last scanned, and what it holds."""
