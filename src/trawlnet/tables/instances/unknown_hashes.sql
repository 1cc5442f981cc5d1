-- Hashes that instances have and that nobody knows.
SELECT hash FROM activity_hash WHERE NOT known ORDER BY hash LIMIT :most
