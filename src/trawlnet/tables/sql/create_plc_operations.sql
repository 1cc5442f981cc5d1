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
