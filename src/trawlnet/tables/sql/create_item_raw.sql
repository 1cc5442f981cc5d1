-- Each item of a plain JSON API. One that is stored again replaces the row.
CREATE TABLE IF NOT EXISTS item_raw
(
    id UInt64,
    raw_json String CODEC(ZSTD(3)),
    stored_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(stored_at)
ORDER BY id
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1
