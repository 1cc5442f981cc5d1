"""Discovers PDSes for the registry: from the PLC directory, relays, and mentioned accounts."""
