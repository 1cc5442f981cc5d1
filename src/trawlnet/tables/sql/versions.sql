-- name: are_there
-- Whether anything was noted here yet.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_versions'

-- name: are_there (postgresql)
-- Whether anything was noted here yet.
SELECT 1 WHERE to_regclass('schema_versions') IS NOT NULL

-- name: create
-- Which steps of which schema were made, one row each.
CREATE TABLE IF NOT EXISTS schema_versions
(
    folder TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (folder, version)
)

-- name: current
-- How far a schema has come.
SELECT COALESCE(MAX(version), 0) FROM schema_versions WHERE folder = :folder

-- name: lock
-- A transaction of SQLite is alone from its beginning.
SELECT 1

-- name: lock (postgresql)
-- Be the only program that changes a schema here, until the transaction ends. Not a lock of the
-- table: two programs that both make that table would already be in each other's way.
SELECT pg_advisory_xact_lock(hashtext('trawlnet schema versions'))

-- name: newest
-- How far each schema has come.
SELECT folder, MAX(version) FROM schema_versions GROUP BY folder

-- name: note
-- A step was made.
INSERT INTO schema_versions (folder, version) VALUES (:folder, :version)
