"""A repository of the protocol, built and read from its specification: what worlds serve, and the
oracle for what production reads."""
