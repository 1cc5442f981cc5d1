-- What a PDS holds, and within it one repo.
CREATE INDEX IF NOT EXISTS endorsements_by_pds ON endorsements (pds_url, did)
