-- What a PDS holds, and within it one repo.
CREATE INDEX IF NOT EXISTS invalid_records_by_pds ON invalid_records (pds_url, did)
