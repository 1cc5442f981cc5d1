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
