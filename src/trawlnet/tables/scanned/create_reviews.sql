-- Comments on preprints.
CREATE TABLE IF NOT EXISTS reviews (
  uri TEXT PRIMARY KEY,
  cid TEXT NOT NULL,
  did TEXT NOT NULL,
  rkey TEXT NOT NULL,
  collection TEXT NOT NULL,
  pds_url TEXT NOT NULL,
  raw_json TEXT NOT NULL,
  eprint_uri TEXT,
  parent_uri TEXT,
  body TEXT,
  created_at TEXT,
  indexed_at TIMESTAMPTZ,
  deleted_at TIMESTAMPTZ,
  scan BIGINT NOT NULL
)
