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
