-- It was looked up now.
UPDATE scan_mentions SET asked_at = :now WHERE did = :did
