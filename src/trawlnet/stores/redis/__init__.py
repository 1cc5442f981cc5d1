"""The store on a Redis server, for many processes: each change is one Lua script."""
