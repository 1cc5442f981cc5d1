"""A simulated network that changes: accounts write, move and leave, and every server tells of it
on its firehose."""
