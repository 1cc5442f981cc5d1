-- Which steps of the schema were made, one row each.
CREATE TABLE IF NOT EXISTS schema_version
(
    version UInt32,
    made_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY version
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
