-- Where a DID was found to live, so that a mention costs one question now and then.
CREATE TABLE IF NOT EXISTS pds_lookups (
  did TEXT PRIMARY KEY,
  pds_url TEXT NOT NULL,
  reason TEXT NOT NULL,
  asked_at TIMESTAMPTZ NOT NULL
)
