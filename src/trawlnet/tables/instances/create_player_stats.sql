-- Sums per player and hash; each is the same in whatever order the instances came.
CREATE TABLE player_stats
(
    membership_id BIGINT NOT NULL,
    hash BIGINT NOT NULL REFERENCES activity_hash (hash),
    instances BIGINT NOT NULL,
    clears BIGINT NOT NULL,
    fresh_clears BIGINT NOT NULL,
    time_played_seconds BIGINT NOT NULL,
    first_clear_at TIMESTAMPTZ,
    first_clear_instance_id BIGINT,
    fastest_fresh_seconds BIGINT,
    fastest_fresh_instance_id BIGINT,
    PRIMARY KEY (membership_id, hash)
)
