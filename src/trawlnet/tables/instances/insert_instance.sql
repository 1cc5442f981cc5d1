-- Tells the id of an instance that is new, and nothing of one that was stored before.
INSERT INTO instance (
    instance_id, hash, completed, fresh, flawless, player_count, date_started, date_completed,
    duration_seconds, score, platform, difficulty_tier, skull_hashes
)
VALUES (
    :instance_id, :hash, :completed, :fresh, :flawless, :player_count, :date_started,
    :date_completed, :duration_seconds, :score, :platform, :difficulty_tier, :skull_hashes
)
ON CONFLICT (instance_id) DO NOTHING
RETURNING instance_id
