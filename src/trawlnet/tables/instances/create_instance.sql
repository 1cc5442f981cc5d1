-- One row per instance. fresh and flawless are NULL where its report cannot tell.
-- SQLite keeps instants as ISO 8601 text in UTC, and booleans as 0 and 1.
CREATE TABLE instance
(
    instance_id BIGINT PRIMARY KEY,
    hash BIGINT NOT NULL REFERENCES activity_hash (hash),
    completed BOOLEAN NOT NULL,
    fresh BOOLEAN,
    flawless BOOLEAN,
    player_count BIGINT NOT NULL,
    date_started TIMESTAMPTZ NOT NULL,
    date_completed TIMESTAMPTZ NOT NULL,
    duration_seconds BIGINT NOT NULL,
    score BIGINT NOT NULL,
    platform BIGINT NOT NULL,
    difficulty_tier BIGINT,
    skull_hashes TEXT NOT NULL -- A JSON list.
)
