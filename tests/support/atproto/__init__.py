"""Clients of simulated directories and networks, and the truth about those."""
