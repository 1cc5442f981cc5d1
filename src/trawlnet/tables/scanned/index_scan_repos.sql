-- What is still to be read of a PDS.
CREATE INDEX IF NOT EXISTS scan_repos_pending ON scan_repos (pds_url, did) WHERE is_pending = 1
