-- The runs of an activity in the order of time.
CREATE INDEX instance_by_hash ON instance (hash, date_completed)
