-- name: add_player_stats
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

-- name: insert_instance
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

-- name: insert_instance (postgresql)
-- All of a batch at once, in one order for all transactions; tells which were new.
INSERT INTO instance
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance), CAST(:rows AS JSONB))
ORDER BY instance_id
ON CONFLICT (instance_id) DO NOTHING
RETURNING instance_id

-- name: insert_instance_character
-- One character of a new instance.
INSERT INTO instance_character (
    instance_id, membership_id, character_id, class_hash, emblem_hash, light_level, completed,
    score, kills, deaths, assists, precision_kills, super_kills, grenade_kills, melee_kills,
    start_seconds, time_played_seconds
)
VALUES (
    :instance_id, :membership_id, :character_id, :class_hash, :emblem_hash, :light_level,
    :completed, :score, :kills, :deaths, :assists, :precision_kills, :super_kills,
    :grenade_kills, :melee_kills, :start_seconds, :time_played_seconds
)

-- name: insert_instance_character (postgresql)
-- Every character of the new instances of a batch.
INSERT INTO instance_character
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance_character), CAST(:rows AS JSONB))

-- name: insert_instance_player
-- One player of a new instance.
INSERT INTO instance_player (instance_id, membership_id, completed, time_played_seconds)
VALUES (:instance_id, :membership_id, :completed, :time_played_seconds)

-- name: insert_instance_player (postgresql)
-- Every player of the new instances of a batch.
INSERT INTO instance_player
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance_player), CAST(:rows AS JSONB))

-- name: insert_instance_weapon
-- One weapon of one character of a new instance.
INSERT INTO instance_weapon (
    instance_id, membership_id, character_id, weapon_hash, kills, precision_kills
)
VALUES (
    :instance_id, :membership_id, :character_id, :weapon_hash, :kills, :precision_kills
)

-- name: insert_instance_weapon (postgresql)
-- Every weapon of the new instances of a batch.
INSERT INTO instance_weapon
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance_weapon), CAST(:rows AS JSONB))

-- name: latest_instance
-- The highest id that was stored, ids out of the counter's reach left out.
SELECT MAX(instance_id) FROM instance WHERE instance_id < :beyond

-- name: note_known_hash
-- What this program knows of a hash, also when it was seen before it was known.
INSERT INTO activity_hash (hash, activity, version, known)
VALUES (:hash, :activity, :version, TRUE)
ON CONFLICT (hash) DO UPDATE SET
    activity = excluded.activity,
    version = excluded.version,
    known = TRUE

-- name: note_seen_hash
-- A hash that an instance has; flagged if it was unknown before.
INSERT INTO activity_hash (hash, activity, version, known)
VALUES (:hash, NULL, NULL, FALSE)
ON CONFLICT (hash) DO NOTHING

-- name: save_player
-- Keep what the report says that saw the player last; between equals the higher instance counts.
INSERT INTO player (
    membership_id, membership_type, display_name, bungie_global_display_name,
    bungie_global_display_name_code, icon_path, last_seen, last_seen_instance_id
)
VALUES (
    :membership_id, :membership_type, :display_name, :global_name, :global_code, :icon_path,
    :last_seen, :instance_id
)
ON CONFLICT (membership_id) DO UPDATE SET
    membership_type = excluded.membership_type,
    display_name = excluded.display_name,
    bungie_global_display_name = excluded.bungie_global_display_name,
    bungie_global_display_name_code = excluded.bungie_global_display_name_code,
    icon_path = excluded.icon_path,
    last_seen = excluded.last_seen,
    last_seen_instance_id = excluded.last_seen_instance_id
WHERE (excluded.last_seen, excluded.last_seen_instance_id)
    > (player.last_seen, player.last_seen_instance_id)

-- name: unknown_hashes
-- Hashes that instances have and that nobody knows.
SELECT hash FROM activity_hash WHERE NOT known ORDER BY hash LIMIT :most
