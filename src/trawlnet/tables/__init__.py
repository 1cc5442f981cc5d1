"""SQL tables: ClickHouse, embedded or a server, and a relational database, SQLite or PostgreSQL."""
