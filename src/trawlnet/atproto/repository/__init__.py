"""The commit of a repository and the nodes of its tree, in plain Python: as the C code has them."""
