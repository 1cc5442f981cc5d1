"""The embedded store: one LMDB environment in the workspace, for one process."""
