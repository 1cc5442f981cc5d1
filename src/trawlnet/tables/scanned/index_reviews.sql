-- What a PDS holds, and within it one repo.
CREATE INDEX IF NOT EXISTS reviews_by_pds ON reviews (pds_url, did)
