"""Completions for shells, and man pages."""
