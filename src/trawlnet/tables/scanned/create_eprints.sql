-- Submitted preprints.
CREATE TABLE IF NOT EXISTS eprints (
  uri TEXT PRIMARY KEY,
  cid TEXT NOT NULL,
  did TEXT NOT NULL,
  rkey TEXT NOT NULL,
  collection TEXT NOT NULL,
  pds_url TEXT NOT NULL,
  raw_json TEXT NOT NULL,
  title TEXT,
  abstract TEXT,
  license TEXT,
  submitted_by TEXT,
  authors TEXT,
  document_cid TEXT,
  document_mime TEXT,
  document_size BIGINT,
  created_at TEXT,
  indexed_at TIMESTAMPTZ,
  deleted_at TIMESTAMPTZ,
  scan BIGINT NOT NULL
)
