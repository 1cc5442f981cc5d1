-- Which segments were replayed to their end, and with which filter.
CREATE TABLE IF NOT EXISTS replayed_segments
(
    segment String COMMENT 'file name, size and checksum of the index',
    collections String COMMENT 'the filter',
    records UInt64,
    repeats UInt64 COMMENT 'repositories that were there before, until their rows are merged',
    version UInt64,
    finished_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (segment, collections)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
