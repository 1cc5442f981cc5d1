-- What is still to be read of a PDS.
CREATE INDEX scan_repos_pending ON scan_repos (pds_url, scope, did) WHERE is_pending = 1
