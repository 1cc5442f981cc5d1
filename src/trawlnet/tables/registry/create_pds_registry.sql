-- Every PDS that somebody told us of, how its scans went, and when the next one is due.
CREATE TABLE IF NOT EXISTS pds_registry (
  pds_url TEXT PRIMARY KEY,
  discovered_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
  discovery_source TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  last_scan_at TIMESTAMPTZ,
  next_scan_at TIMESTAMPTZ,
  has_chive_records BOOLEAN,
  chive_record_count INTEGER NOT NULL DEFAULT 0,
  consecutive_failures INTEGER NOT NULL DEFAULT 0,
  scan_priority INTEGER NOT NULL DEFAULT 100,
  last_error TEXT,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
  is_relay_connected BOOLEAN NOT NULL DEFAULT FALSE,
  account_count INTEGER,
  indexed_record_count INTEGER NOT NULL DEFAULT 0,
  last_try_at TIMESTAMPTZ,
  last_reason TEXT,
  registrable_domain TEXT NOT NULL DEFAULT '',
  scan_order TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
  lease_owner TEXT,
  lease_until TIMESTAMPTZ
)
