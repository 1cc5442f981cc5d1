"""Repositories that deltas have changed: which blocks count, and what they come to."""
