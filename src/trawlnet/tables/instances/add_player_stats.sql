-- Add one instance to the sums of one of its players.
INSERT INTO player_stats (
    membership_id, hash, instances, clears, fresh_clears, time_played_seconds,
    first_clear_at, first_clear_instance_id, fastest_fresh_seconds, fastest_fresh_instance_id
)
VALUES (
    :membership_id, :hash, 1, :clears, :fresh_clears, :time_played_seconds,
    :first_clear_at, :first_clear_instance_id, :fastest_fresh_seconds, :fastest_fresh_instance_id
)
ON CONFLICT (membership_id, hash) DO UPDATE SET
    instances = player_stats.instances + 1,
    clears = player_stats.clears + excluded.clears,
    fresh_clears = player_stats.fresh_clears + excluded.fresh_clears,
    time_played_seconds = player_stats.time_played_seconds + excluded.time_played_seconds,
    first_clear_at = CASE
        WHEN player_stats.first_clear_at IS NULL
            OR (excluded.first_clear_at, excluded.first_clear_instance_id)
            < (player_stats.first_clear_at, player_stats.first_clear_instance_id)
        THEN excluded.first_clear_at
        ELSE player_stats.first_clear_at
    END,
    first_clear_instance_id = CASE
        WHEN player_stats.first_clear_at IS NULL
            OR (excluded.first_clear_at, excluded.first_clear_instance_id)
            < (player_stats.first_clear_at, player_stats.first_clear_instance_id)
        THEN excluded.first_clear_instance_id
        ELSE player_stats.first_clear_instance_id
    END,
    fastest_fresh_seconds = CASE
        WHEN player_stats.fastest_fresh_seconds IS NULL
            OR (excluded.fastest_fresh_seconds, excluded.fastest_fresh_instance_id)
            < (player_stats.fastest_fresh_seconds, player_stats.fastest_fresh_instance_id)
        THEN excluded.fastest_fresh_seconds
        ELSE player_stats.fastest_fresh_seconds
    END,
    fastest_fresh_instance_id = CASE
        WHEN player_stats.fastest_fresh_seconds IS NULL
            OR (excluded.fastest_fresh_seconds, excluded.fastest_fresh_instance_id)
            < (player_stats.fastest_fresh_seconds, player_stats.fastest_fresh_instance_id)
        THEN excluded.fastest_fresh_instance_id
        ELSE player_stats.fastest_fresh_instance_id
    END
