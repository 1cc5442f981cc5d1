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
