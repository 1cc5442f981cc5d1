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
