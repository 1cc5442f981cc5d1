"""Browsers, and the pages that they look at."""
