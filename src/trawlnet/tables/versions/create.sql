-- Which steps of which schema were made, one row each.
CREATE TABLE IF NOT EXISTS schema_versions
(
    folder TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (folder, version)
)
