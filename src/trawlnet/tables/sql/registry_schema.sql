-- name: create_pds_bans
-- Hosts and domains that are neither registered nor asked.
CREATE TABLE pds_bans (
  name TEXT PRIMARY KEY,
  reason TEXT NOT NULL,
  banned_at TIMESTAMPTZ NOT NULL
)

-- name: create_pds_entries
-- A row of the registry as the program reads it, in the order of PdsRow's fields.
CREATE VIEW pds_entries AS
SELECT pds_url, discovered_at, discovery_source, status, last_scan_at, next_scan_at,
  has_chive_records, chive_record_count, consecutive_failures, scan_priority, last_error,
  is_relay_connected, account_count, indexed_record_count, last_try_at, last_reason,
  updated_at, lease_owner, lease_until
FROM pds_registry

-- name: create_pds_lookups
-- Where a DID was found to live, so that a mention costs one question now and then.
CREATE TABLE IF NOT EXISTS pds_lookups (
  did TEXT PRIMARY KEY,
  pds_url TEXT NOT NULL,
  reason TEXT NOT NULL,
  asked_at TIMESTAMPTZ NOT NULL
)

-- name: create_pds_notes
-- Where a discovery that is read step by step goes on.
CREATE TABLE IF NOT EXISTS pds_notes (
  name TEXT PRIMARY KEY,
  note TEXT NOT NULL
)

-- name: create_pds_registry
-- Every known PDS, the results of its scans, and when the next one is due.
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

-- name: create_pds_scan_hours
-- How many scans ended in which hour, and how: bounded, however many scans there are.
CREATE TABLE IF NOT EXISTS pds_scan_hours (
  scan_hour TIMESTAMPTZ NOT NULL,
  result TEXT NOT NULL,
  reason TEXT NOT NULL,
  scans INTEGER NOT NULL,
  PRIMARY KEY (scan_hour, result, reason)
)

-- name: create_pds_scope_scans
-- When each PDS is due again for each scope, as its last complete scan left it.
CREATE TABLE pds_scope_scans (
  pds_url TEXT NOT NULL,
  scope TEXT NOT NULL,
  next_scan_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (pds_url, scope)
)

-- name: index_domains
-- The budget counts the rows of one registrable domain.
CREATE INDEX IF NOT EXISTS pds_registry_domains ON pds_registry (registrable_domain)

-- name: index_scan_order
-- Claims read due rows in this order.
CREATE INDEX IF NOT EXISTS pds_registry_scan_order ON pds_registry (scan_order, pds_url)

-- name: add_wanted_by
-- Who waits for a PDS to be free, so that nobody else claims it first.
ALTER TABLE pds_registry ADD COLUMN wanted_by TEXT

-- name: add_wanted_until
-- Until when.
ALTER TABLE pds_registry ADD COLUMN wanted_until TIMESTAMPTZ

-- name: drop_scope_scans
-- A PDS is due for every scope.
DELETE FROM pds_scope_scans WHERE pds_url = :url

-- name: forget_pds_bans
-- Everything.
DELETE FROM pds_bans

-- name: forget_pds_lookups
-- Begin anew.
DELETE FROM pds_lookups

-- name: forget_pds_notes
-- Begin anew.
DELETE FROM pds_notes

-- name: forget_pds_registry
-- Begin anew.
DELETE FROM pds_registry

-- name: forget_pds_scan_hours
-- Begin anew.
DELETE FROM pds_scan_hours

-- name: forget_pds_scope_scans
-- Everything.
DELETE FROM pds_scope_scans
