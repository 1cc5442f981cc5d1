-- Tags of preprints; indexed_at is NULL until tags are asked for.
CREATE TABLE IF NOT EXISTS tags (
  uri TEXT PRIMARY KEY,
  cid TEXT NOT NULL,
  did TEXT NOT NULL,
  rkey TEXT NOT NULL,
  collection TEXT NOT NULL,
  pds_url TEXT NOT NULL,
  raw_json TEXT NOT NULL,
  eprint_uri TEXT,
  tag TEXT,
  created_at TEXT,
  indexed_at TIMESTAMPTZ,
  deleted_at TIMESTAMPTZ,
  scan BIGINT NOT NULL
)
