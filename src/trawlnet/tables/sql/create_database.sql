-- The database that a server was told to use.
CREATE DATABASE IF NOT EXISTS {database:Identifier}
