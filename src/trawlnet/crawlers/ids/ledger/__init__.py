"""The ledger: what is known of every id, as intervals, and what follows from it."""
