-- part: due
-- A lease that has run out is its holder's no more, so what a dead process was scanning is due
-- again. A row that waits only because a scan for another scope was complete is due for whoever has
-- a scope of their own.
(r.lease_until IS NULL OR r.lease_until <= :now)
    AND (r.wanted_until IS NULL OR r.wanted_until <= :now)
    AND NOT (:skip_connected AND r.is_relay_connected)
    AND NOT EXISTS (SELECT 1 FROM pds_scope_scans AS s
      WHERE s.pds_url = r.pds_url AND s.scope = :scope AND s.next_scan_at > :now)
    AND (r.next_scan_at IS NULL OR r.next_scan_at <= :now OR :scope <> '' AND r.next_scan_at IN (
      SELECT s.next_scan_at FROM pds_scope_scans AS s WHERE s.pds_url = r.pds_url))

-- part: cut_short
-- The last scan ended before it was complete, and not because it failed.
r.last_reason IN ('ok', 'rate_limited', 'parked')
      AND r.last_try_at > COALESCE(r.last_scan_at, r.discovered_at)

-- part: most_urgent
-- Without those that were cut short where these have claims of their own.
SELECT r.pds_url FROM pds_registry AS r
  WHERE $due AND NOT (:skip_begun AND COALESCE($cut_short, FALSE))
  ORDER BY r.scan_order, r.pds_url
  LIMIT :count

-- part: longest_begun
-- The longest wait goes first, so that each has its turn, however important others are.
SELECT r.pds_url FROM pds_registry AS r
  WHERE $due AND $cut_short
  ORDER BY r.next_scan_at, r.pds_url
  LIMIT :count

-- part: take
-- For as long as the lease lasts.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now

-- name: claim (postgresql)
-- Take the most urgent rows that are due. Rows that another claim is just taking are passed over:
-- two claims never wait for each other, and never share.
$take
WHERE pds_url = ANY(ARRAY($most_urgent FOR UPDATE SKIP LOCKED))
RETURNING pds_url

-- name: claim (sqlite)
-- Take the most urgent rows that are due.
$take
WHERE pds_url IN ($most_urgent)
RETURNING pds_url

-- name: claim_begun (postgresql)
-- The same for scans that were cut short.
$take
WHERE pds_url = ANY(ARRAY($longest_begun FOR UPDATE SKIP LOCKED))
RETURNING pds_url

-- name: claim_begun (sqlite)
-- The same for scans that were cut short.
$take
WHERE pds_url IN ($longest_begun)
RETURNING pds_url

-- name: claim_one
-- Take one row, due or not, unless somebody has it, or waits for it.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now,
  wanted_by = NULL, wanted_until = NULL
WHERE pds_url = :url AND (lease_until IS NULL OR lease_until <= :now)
  AND (wanted_until IS NULL OR wanted_until <= :now OR wanted_by = :owner)
RETURNING pds_url

-- name: claimed_by
-- Claims under names that begin so.
SELECT pds_url, lease_owner FROM pds_registry
WHERE SUBSTR(lease_owner, 1, LENGTH(:name)) = :name

-- name: claims
-- Who holds how many claims.
SELECT lease_owner, COUNT(*) FROM pds_registry
WHERE lease_until > :now
GROUP BY lease_owner
ORDER BY lease_owner

-- name: count_scan
-- One more scan in this hour.
INSERT INTO pds_scan_hours (scan_hour, result, reason, scans)
VALUES (:scan_hour, :result, :reason, 1)
ON CONFLICT (scan_hour, result, reason) DO UPDATE SET scans = pds_scan_hours.scans + 1

-- name: failures
-- Rows whose last tries failed, in the order of their URLs; an empty reason lets all pass.
SELECT * FROM pds_entries
WHERE consecutive_failures > 0 AND pds_url > :after AND (:reason = '' OR last_reason = :reason)
ORDER BY pds_url
LIMIT :count

-- name: finish
-- Write down how a scan ended, if the lease is still its holder's.
UPDATE pds_registry
SET status = :status, last_scan_at = :last_scan_at, next_scan_at = :next_scan_at,
  has_chive_records = :has_chive_records, chive_record_count = :chive_record_count,
  indexed_record_count = :indexed_record_count, consecutive_failures = :consecutive_failures,
  scan_priority = :scan_priority, scan_order = :scan_order, last_error = :last_error,
  last_try_at = :last_try_at, last_reason = :last_reason, updated_at = :updated_at,
  lease_owner = NULL, lease_until = NULL
WHERE pds_url = :url AND lease_owner = :owner AND lease_until > :updated_at

-- name: next_begun
-- When the first row is due whose last scan was cut short, or put off by its server.
SELECT MIN(CASE
  WHEN wanted_until > :now THEN wanted_until
  WHEN :scope <> '' AND next_scan_at IN (
    SELECT s.next_scan_at FROM pds_scope_scans AS s WHERE s.pds_url = r.pds_url) THEN :now
  ELSE next_scan_at END)
FROM pds_registry AS r
WHERE (lease_until IS NULL OR lease_until <= :now)
  AND NOT (:skip_connected AND is_relay_connected)
  AND last_reason IN ('ok', 'rate_limited', 'parked')
  AND last_try_at > COALESCE(last_scan_at, discovered_at)
  AND NOT EXISTS (SELECT 1 FROM pds_scope_scans AS s
    WHERE s.pds_url = r.pds_url AND s.scope = :scope AND s.next_scan_at > :now)

-- name: next_once
-- When to look again, for a crawl that scans until nothing is left: when the first scan that was cut
-- short may go on, and soon while anybody holds a claim, or where a row fell free since the last
-- claim. In one query: a row that goes from one of these states to another is in one of them.
SELECT MIN(CASE
  WHEN lease_until > :now OR next_scan_at IS NULL OR next_scan_at <= :now
    OR :scope <> '' AND next_scan_at IN (
      SELECT s.next_scan_at FROM pds_scope_scans AS s WHERE s.pds_url = r.pds_url) THEN :soon
  ELSE next_scan_at END)
FROM pds_registry AS r
WHERE NOT EXISTS (SELECT 1 FROM pds_scope_scans AS s
    WHERE s.pds_url = r.pds_url AND s.scope = :scope AND s.next_scan_at > :now)
  AND (lease_until > :now
    OR NOT (:skip_connected AND is_relay_connected)
      AND (next_scan_at IS NULL OR next_scan_at <= :now
        OR :scope <> '' AND next_scan_at IN (
          SELECT s.next_scan_at FROM pds_scope_scans AS s WHERE s.pds_url = r.pds_url)
        OR last_reason = 'ok' AND last_try_at > COALESCE(last_scan_at, discovered_at)))

-- name: release
-- Give back what was claimed: it is as due as before. Where a scan was begun, it ended now.
UPDATE pds_registry
SET status = :status, last_try_at = :last_try_at, lease_owner = NULL, lease_until = NULL,
  updated_at = :now
WHERE pds_url = :url AND lease_owner = :owner AND lease_until > :now

-- name: renew
-- Keep a lease that is still held.
UPDATE pds_registry SET lease_until = :until
WHERE pds_url = :url AND lease_owner = :owner AND lease_until > :now

-- name: retry
-- Make failed rows due now, with a clean slate; those being scanned are left alone.
UPDATE pds_registry
SET status = 'pending', next_scan_at = :now, consecutive_failures = 0, scan_priority = :priority,
  scan_order = :scan_order, updated_at = :now
WHERE consecutive_failures > 0 AND status <> 'scanning'
  AND (:reason = '' OR last_reason = :reason)

-- name: save_scope_scan
-- A complete scan for one scope.
INSERT INTO pds_scope_scans (pds_url, scope, next_scan_at) VALUES (:url, :scope, :next_scan_at)
ON CONFLICT (pds_url, scope) DO UPDATE SET next_scan_at = excluded.next_scan_at

-- name: want
-- Reserve a PDS for the process that waits for it; of two that wait the first is next.
UPDATE pds_registry SET wanted_by = :owner, wanted_until = :until
WHERE pds_url = :url AND (wanted_until IS NULL OR wanted_until <= :now OR wanted_by = :owner)
