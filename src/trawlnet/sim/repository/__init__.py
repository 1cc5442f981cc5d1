"""A repository of the protocol, built from its specification: what worlds serve."""
