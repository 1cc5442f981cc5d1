"""Repositories and segments made by hand, and runs of the repos crawler."""
