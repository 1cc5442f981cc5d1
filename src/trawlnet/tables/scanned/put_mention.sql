-- An account that a record names; one that is known stays as it is.
INSERT INTO scan_mentions (did, asked_at) VALUES (:did, NULL)
ON CONFLICT (did) DO NOTHING
