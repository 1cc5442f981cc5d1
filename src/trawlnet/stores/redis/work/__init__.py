"""Tasks, leases and receipts in Redis, each script beside the module that calls it."""
