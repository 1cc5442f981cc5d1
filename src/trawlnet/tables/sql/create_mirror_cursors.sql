-- How far each mirror has come; written only after everything before that point is stored.
CREATE TABLE IF NOT EXISTS mirror_cursors
(
    name String,
    source String COMMENT 'URL that was mirrored',
    form LowCardinality(String) COMMENT 'seq or time: what the position counts',
    position UInt64,
    saved_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(position)
ORDER BY name
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
