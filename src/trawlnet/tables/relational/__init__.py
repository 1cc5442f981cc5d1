"""A relational database: SQLite in the workspace, or PostgreSQL."""
