-- One row per replayed repository, those without records included: its newest block.
CREATE TABLE IF NOT EXISTS replayed_repos
(
    repo String,
    pds String,
    rev String,
    records UInt64 COMMENT 'in the archive, before any filter',
    time_us Int64 COMMENT 'when it was crawled'
)
ENGINE = ReplacingMergeTree(time_us)
ORDER BY repo
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1
