"""SQL tables: one dialect of ClickHouse, embedded in the workspace or on a server."""
