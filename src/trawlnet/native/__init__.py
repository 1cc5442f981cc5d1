"""The C of two extensions, and its loader. Every function has a twin in plain Python."""
