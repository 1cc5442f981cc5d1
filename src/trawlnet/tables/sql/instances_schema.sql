-- name: create_activity_hash
-- Every activity hash that was seen or is known. One that this program does not know is stored, too,
-- flagged: on the first day of a new raid nobody knows its hashes.
CREATE TABLE activity_hash
(
    hash BIGINT PRIMARY KEY,
    activity TEXT,
    version TEXT,
    known BOOLEAN NOT NULL
)

-- name: create_instance
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

-- name: create_instance_character
-- What each character did.
CREATE TABLE instance_character
(
    instance_id BIGINT NOT NULL REFERENCES instance (instance_id),
    membership_id BIGINT NOT NULL,
    character_id BIGINT NOT NULL,
    class_hash BIGINT,
    emblem_hash BIGINT,
    light_level BIGINT NOT NULL,
    completed BOOLEAN NOT NULL,
    score BIGINT NOT NULL,
    kills BIGINT NOT NULL,
    deaths BIGINT NOT NULL,
    assists BIGINT NOT NULL,
    precision_kills BIGINT NOT NULL,
    super_kills BIGINT NOT NULL,
    grenade_kills BIGINT NOT NULL,
    melee_kills BIGINT NOT NULL,
    start_seconds BIGINT NOT NULL,
    time_played_seconds BIGINT NOT NULL,
    PRIMARY KEY (instance_id, membership_id, character_id)
)

-- name: create_instance_player
-- Who took part, whatever the number of characters.
CREATE TABLE instance_player
(
    instance_id BIGINT NOT NULL REFERENCES instance (instance_id),
    membership_id BIGINT NOT NULL,
    completed BOOLEAN NOT NULL,
    time_played_seconds BIGINT NOT NULL,
    PRIMARY KEY (instance_id, membership_id)
)

-- name: create_instance_sherpa
-- Of each finisher, whether it was the first clear of that activity, and otherwise how many
-- first-timers were led to the end.
CREATE VIEW instance_sherpa AS
WITH finisher AS (
    SELECT
        instance_player.instance_id,
        instance_player.membership_id,
        CASE WHEN first.instance_id = instance_player.instance_id THEN 1 ELSE 0 END AS first_clear
    FROM instance_player
    JOIN instance ON instance.instance_id = instance_player.instance_id
    JOIN activity_hash ON activity_hash.hash = instance.hash
    JOIN player_first_clear AS first
        ON first.membership_id = instance_player.membership_id
        AND first.activity = COALESCE(activity_hash.activity, CAST(activity_hash.hash AS TEXT))
    WHERE instance_player.completed
)
SELECT
    instance_id,
    membership_id,
    first_clear,
    CASE
        WHEN first_clear = 1 THEN 0
        ELSE SUM(first_clear) OVER (PARTITION BY instance_id)
    END AS sherpas
FROM finisher

-- name: create_instance_weapon
-- What each character did it with.
CREATE TABLE instance_weapon
(
    instance_id BIGINT NOT NULL REFERENCES instance (instance_id),
    membership_id BIGINT NOT NULL,
    character_id BIGINT NOT NULL,
    weapon_hash BIGINT NOT NULL,
    kills BIGINT NOT NULL,
    precision_kills BIGINT NOT NULL,
    PRIMARY KEY (instance_id, membership_id, character_id, weapon_hash)
)

-- name: create_player
-- What the report that saw somebody last says of them. A name is written as JSON text, quotes
-- included, where it holds characters that a database refuses, or begins with a quote itself.
CREATE TABLE player
(
    membership_id BIGINT PRIMARY KEY,
    membership_type BIGINT NOT NULL,
    display_name TEXT NOT NULL,
    bungie_global_display_name TEXT NOT NULL,
    bungie_global_display_name_code TEXT,
    icon_path TEXT NOT NULL,
    last_seen TIMESTAMPTZ NOT NULL,
    last_seen_instance_id BIGINT NOT NULL
)

-- name: create_player_first_clear
-- For each player and activity the earliest clear under any of its hashes. A view, because an
-- earlier one may be stored later.
CREATE VIEW player_first_clear AS
SELECT membership_id, activity, instance_id, cleared_at
FROM (
    SELECT
        player_stats.membership_id,
        COALESCE(activity_hash.activity, CAST(activity_hash.hash AS TEXT)) AS activity,
        player_stats.first_clear_instance_id AS instance_id,
        player_stats.first_clear_at AS cleared_at,
        ROW_NUMBER() OVER (
            PARTITION BY
                player_stats.membership_id,
                COALESCE(activity_hash.activity, CAST(activity_hash.hash AS TEXT))
            ORDER BY player_stats.first_clear_at, player_stats.first_clear_instance_id
        ) AS place
    FROM player_stats
    JOIN activity_hash ON activity_hash.hash = player_stats.hash
    WHERE player_stats.first_clear_instance_id IS NOT NULL
) AS ranked
WHERE place = 1

-- name: create_player_stats
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

-- name: index_instance
-- The runs of an activity in the order of time.
CREATE INDEX instance_by_hash ON instance (hash, date_completed)

-- name: index_instance_player
-- Everything that somebody took part in.
CREATE INDEX instance_player_by_membership ON instance_player (membership_id, instance_id)
