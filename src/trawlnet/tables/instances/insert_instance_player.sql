-- One player of a new instance.
INSERT INTO instance_player (instance_id, membership_id, completed, time_played_seconds)
VALUES (:instance_id, :membership_id, :completed, :time_played_seconds)
