-- How far a schema has come.
SELECT COALESCE(MAX(version), 0) FROM schema_versions WHERE folder = :folder
