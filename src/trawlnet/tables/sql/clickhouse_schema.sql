-- name: add_is_deleted
-- The column that tells the engine which rows are deletions, in a table of before it was there.
ALTER TABLE repo_records
ADD COLUMN IF NOT EXISTS is_deleted UInt8 MATERIALIZED operation = 'delete' COMMENT '1 for a deletion; FINAL leaves such rows out'

-- name: create_database
-- The database that a server was told to use.
CREATE DATABASE IF NOT EXISTS {database:Identifier}

-- name: create_item_raw
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

-- name: create_mirror_cursors
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

-- name: create_pgcr_raw
-- The raw report of each instance. One that is stored again replaces the row.
CREATE TABLE IF NOT EXISTS pgcr_raw
(
    instance_id UInt64,
    raw_json String CODEC(ZSTD(3)),
    stored_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(stored_at)
ORDER BY instance_id
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1

-- name: create_plc_did_state
-- What each DID stands for now: the projection of its newest operation that was not nullified.
-- Small granules, because the mirror looks up thousands of single DIDs for each batch.
CREATE TABLE IF NOT EXISTS plc_did_state
(
    did String,
    cid String COMMENT 'the operation that made this state',
    operation_type LowCardinality(String),
    created_at DateTime64(6, 'UTC'),
    handle String,
    pds String COMMENT 'canonical origin; empty when there is none or it is refused',
    pds_refused LowCardinality(String) COMMENT 'why the endpoint is not used',
    signing_key String COMMENT 'did:key',
    tombstoned UInt8,
    seq UInt64,
    time_us Int64,
    version UInt64 COMMENT 'seq, or time_us where there is none: the highest row counts'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY did
SETTINGS index_granularity = 256, fsync_after_insert = 1, fsync_part_directory = 1

-- name: create_plc_operations
-- Every operation that the PLC directory published. An operation is told by its DID and CID, so
-- repeats vanish, and of two tellings the one that knows it to be nullified stays.
CREATE TABLE IF NOT EXISTS plc_operations
(
    did String,
    cid String,
    operation_type LowCardinality(String),
    created_at DateTime64(6, 'UTC'),
    handle String,
    pds String COMMENT 'canonical origin; empty when there is none or it is refused',
    pds_refused LowCardinality(String) COMMENT 'why the endpoint is not used',
    signing_key String COMMENT 'did:key',
    prev String COMMENT 'CID of the operation before it; empty for the first',
    operation_json String CODEC(ZSTD(3)),
    nullified UInt8 COMMENT '1: a later operation undid it',
    seq UInt64 COMMENT '0 when the directory did not number it',
    time_us Int64 COMMENT 'created_at in microseconds'
)
ENGINE = ReplacingMergeTree(nullified)
ORDER BY (did, cid)
SETTINGS index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1

-- name: create_replayed_repos
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

-- name: create_replayed_segments
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

-- name: create_repo_records
-- The records of archived repositories, as the first version of the schema had them.
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

-- name: create_repo_records_next
-- The records of repositories as they are now: of the rows of a record the newest counts, and a
-- deletion leaves none.
CREATE TABLE IF NOT EXISTS repo_records_next
(
    repo String,
    collection String,
    rkey String,
    operation Enum8('create' = 1, 'update' = 2, 'delete' = 3),
    record_json String CODEC(ZSTD(1)),
    created_at DateTime64(6) COMMENT 'when the repository was crawled, or the change was heard of',
    indexed_at DateTime64(6) DEFAULT now64(6),
    time_us Int64 COMMENT 'created_at in microseconds',
    is_deleted UInt8 MATERIALIZED operation = 'delete' COMMENT '1 for a deletion; FINAL leaves such rows out'
)
ENGINE = ReplacingMergeTree(time_us, is_deleted)
ORDER BY (collection, repo, rkey)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1

-- name: create_schema_version
-- Which steps of the schema were made, one row each.
CREATE TABLE IF NOT EXISTS schema_version
(
    version UInt32,
    made_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY version
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1

-- name: drop_repo_records_next
-- Remove what an unfinished or a finished exchange has left.
DROP TABLE IF EXISTS repo_records_next SYNC

-- name: exchange_repo_records
-- Both names change places at once.
EXCHANGE TABLES repo_records AND repo_records_next

-- name: has_schema_version
-- Whether there are tables of ours, as far as who only reads may see them.
SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'schema_version'

-- name: note_schema_version
-- Remember that a step of the schema was made.
INSERT INTO schema_version (version) SELECT {version:UInt32}

-- name: schema_version
-- The newest step of the schema; 0 in an empty database.
SELECT max(version) FROM schema_version

-- name: take_repo_records
-- The parts of the old table, as links: no row is copied.
ALTER TABLE repo_records_next ATTACH PARTITION tuple() FROM repo_records
