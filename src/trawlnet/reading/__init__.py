"""Reads the results of crawls from a program: as iterators, or as Arrow."""
