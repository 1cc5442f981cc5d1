"""`trawlnet repos`: every ATProto repository of every PDS, archived."""
