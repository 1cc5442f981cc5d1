"""What the crawlers of the AT Protocol have in common: the PLC directory and identities."""
