-- Everything that somebody took part in.
CREATE INDEX instance_player_by_membership ON instance_player (membership_id, instance_id)
