-- One account, for whatever it was read and wherever.
CREATE INDEX scan_repos_by_did ON scan_repos (did, pds_url)
