"""Processed instances of the ids crawler as rows."""
