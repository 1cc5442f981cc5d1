-- Records that do not keep to the lexicon of their collection, and why.
CREATE TABLE IF NOT EXISTS invalid_records (
  uri TEXT PRIMARY KEY,
  cid TEXT NOT NULL,
  did TEXT NOT NULL,
  rkey TEXT NOT NULL,
  collection TEXT NOT NULL,
  pds_url TEXT NOT NULL,
  raw_json TEXT NOT NULL,
  problem TEXT,
  indexed_at TIMESTAMPTZ,
  deleted_at TIMESTAMPTZ,
  scan BIGINT NOT NULL
)
