"""The network as it changes: firehoses are read, every commit is checked, and what it changes goes
to the archive and to the event log."""
