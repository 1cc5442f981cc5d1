"""Bytes to values and back; pure, no I/O."""
