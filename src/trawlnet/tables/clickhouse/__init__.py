"""ClickHouse, inside this process or on a server, and what is kept there."""
