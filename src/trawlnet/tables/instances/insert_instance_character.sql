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
