"""Pure rules for records: which are wanted, and where each one goes."""
