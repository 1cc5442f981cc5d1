-- The newest step of the schema; 0 in an empty database.
SELECT max(version) FROM schema_version
