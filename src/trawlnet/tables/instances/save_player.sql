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
