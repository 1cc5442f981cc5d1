"""The ledger: the state of every id, as intervals; and the work derived from it."""
