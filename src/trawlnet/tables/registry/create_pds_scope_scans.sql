-- When each PDS is due again for each scope, as its last complete scan left it.
CREATE TABLE pds_scope_scans (
  pds_url TEXT NOT NULL,
  scope TEXT NOT NULL,
  next_scan_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (pds_url, scope)
)
