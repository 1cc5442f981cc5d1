"""A repository read back, from the specification: the oracle for what production reads."""
