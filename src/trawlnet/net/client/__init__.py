"""One HTTP/1.1 client: dialling, the connection, the pool, bodies read under limits."""
