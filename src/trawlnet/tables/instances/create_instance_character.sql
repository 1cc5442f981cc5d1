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
