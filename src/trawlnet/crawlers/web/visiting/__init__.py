"""One visit: ask for a page, read it, and find where it leads."""
