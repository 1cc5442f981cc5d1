"""Which records are wanted, and what becomes of one: pure, by tables of data."""
