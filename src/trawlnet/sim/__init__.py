"""Small honest worlds on loopback, seeded and repeatable."""
