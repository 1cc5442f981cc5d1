-- name: get
-- One row.
SELECT * FROM pds_entries WHERE pds_url = :url

-- name: insert
-- A PDS that is new; nothing happens if another process was faster.
INSERT INTO pds_registry (pds_url, discovered_at, discovery_source, status, scan_priority,
  scan_order, registrable_domain, account_count, is_relay_connected, updated_at)
VALUES (:url, :now, :source, 'pending', :priority, :scan_order, :domain, :accounts, :connected,
  :now)
ON CONFLICT (pds_url) DO NOTHING

-- name: remove
-- One row less.
DELETE FROM pds_registry WHERE pds_url = :url

-- name: revive
-- Make a row that was given up or put off due now, unless it is being scanned.
UPDATE pds_registry
SET status = :status, next_scan_at = :next_scan_at, consecutive_failures = :consecutive_failures,
  scan_priority = :scan_priority, scan_order = :scan_order, updated_at = :now
WHERE pds_url = :url AND status IN ('unreachable', 'no_chive_records')

-- name: tidy
-- Whose claim has run out is being scanned by nobody.
UPDATE pds_registry
SET status = CASE
    WHEN consecutive_failures >= 5 THEN 'unreachable'
    WHEN last_scan_at IS NULL THEN 'pending'
    WHEN has_chive_records THEN 'active'
    ELSE 'no_chive_records'
  END,
  lease_owner = NULL, lease_until = NULL, updated_at = :now
WHERE status = 'scanning' AND lease_until <= :now

-- name: unproven
-- How many hosts of a domain are known of which none was ever scanned to the end.
SELECT COUNT(*) FROM pds_registry WHERE registrable_domain = :domain AND last_scan_at IS NULL
