"""Firehoses: one connection each, what it says about itself, and how far it was read."""
