-- One weapon of one character of a new instance.
INSERT INTO instance_weapon (
    instance_id, membership_id, character_id, weapon_hash, kills, precision_kills
)
VALUES (
    :instance_id, :membership_id, :character_id, :weapon_hash, :kills, :precision_kills
)
