"""Lexicons: schemas of records, and whether a record keeps to one. Pure."""
