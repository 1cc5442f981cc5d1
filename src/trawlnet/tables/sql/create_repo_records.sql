-- The records of archived repositories. A repository that is replayed again replaces its rows.
CREATE TABLE IF NOT EXISTS repo_records
(
    repo String,
    collection String,
    rkey String,
    operation Enum8('create' = 1, 'update' = 2, 'delete' = 3),
    record_json String CODEC(ZSTD(1)),
    created_at DateTime64(6) COMMENT 'when the repository was crawled',
    indexed_at DateTime64(6) DEFAULT now64(6),
    time_us Int64 COMMENT 'created_at in microseconds'
)
ENGINE = ReplacingMergeTree(time_us)
ORDER BY (collection, repo, rkey)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
