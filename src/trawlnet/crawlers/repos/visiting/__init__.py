"""One visit: has the repository changed, fetch it, verify it, and pack its block."""
