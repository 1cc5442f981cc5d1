"""A simulated API of reports, and what its reports are stored in."""
