"""How PDSes come into the registry: the PLC directory, relays, accounts that somebody mentioned."""
