-- Who took part, whatever the number of characters.
CREATE TABLE instance_player
(
    instance_id BIGINT NOT NULL REFERENCES instance (instance_id),
    membership_id BIGINT NOT NULL,
    completed BOOLEAN NOT NULL,
    time_played_seconds BIGINT NOT NULL,
    PRIMARY KEY (instance_id, membership_id)
)
