"""The edge: every request that leaves the machine."""
