-- What this program knows of a hash, also when it was seen before it was known.
INSERT INTO activity_hash (hash, activity, version, known)
VALUES (:hash, :activity, :version, TRUE)
ON CONFLICT (hash) DO UPDATE SET
    activity = excluded.activity,
    version = excluded.version,
    known = TRUE
