"""Fleets over simulated networks, their shards as processes or under Ray."""
