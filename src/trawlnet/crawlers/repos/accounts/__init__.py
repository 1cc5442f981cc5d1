"""Which accounts are visited, and where each lives now."""
