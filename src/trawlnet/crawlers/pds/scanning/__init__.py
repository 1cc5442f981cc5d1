"""A scan of one PDS: the walk over its repos, the reading of each, and how it ends."""
