"""Structured logs of a run: written as JSON lines, and read back."""
