"""The bytes of an .rca segment, and how a repository becomes a block of it. Pure."""
