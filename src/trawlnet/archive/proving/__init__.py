"""Proving a repository from what the archive holds of it, and giving it back as a CAR."""
