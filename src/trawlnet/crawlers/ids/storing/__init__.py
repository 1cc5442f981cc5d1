"""Storing: moves messages from the queue to the tables, and measures the backlog."""
