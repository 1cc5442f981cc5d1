"""The pds crawler: every PDS, what it holds, and a registry that others can use."""
