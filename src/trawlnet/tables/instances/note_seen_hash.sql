-- A hash that an instance has; flagged when nobody had told of it before.
INSERT INTO activity_hash (hash, activity, version, known)
VALUES (:hash, NULL, NULL, FALSE)
ON CONFLICT (hash) DO NOTHING
