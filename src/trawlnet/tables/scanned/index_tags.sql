-- What a PDS holds, and within it one repo.
CREATE INDEX IF NOT EXISTS tags_by_pds ON tags (pds_url, did)
