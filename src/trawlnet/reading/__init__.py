"""What crawls brought home, read from a program: as iterators, or as Arrow."""
