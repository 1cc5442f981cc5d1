-- What a PDS holds, and within it one repo.
CREATE INDEX IF NOT EXISTS eprints_by_pds ON eprints (pds_url, did)
