-- What a PDS holds, and within it one repo.
CREATE INDEX IF NOT EXISTS records_by_pds ON records (pds_url, did)
