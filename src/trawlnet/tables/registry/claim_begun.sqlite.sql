-- The same for scans that were cut short: whoever has waited longest goes first, so that each has
-- its turn, however important the others are.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now
WHERE pds_url IN (
  SELECT r.pds_url FROM pds_registry AS r
  WHERE (r.lease_until IS NULL OR r.lease_until <= :now)
    AND (r.wanted_until IS NULL OR r.wanted_until <= :now)
    AND NOT (:skip_connected AND r.is_relay_connected)
    AND NOT EXISTS (SELECT 1 FROM pds_scope_scans AS s
      WHERE s.pds_url = r.pds_url AND s.scope = :scope AND s.next_scan_at > :now)
    AND (r.next_scan_at IS NULL OR r.next_scan_at <= :now OR :scope <> '' AND r.next_scan_at IN (
      SELECT s.next_scan_at FROM pds_scope_scans AS s WHERE s.pds_url = r.pds_url))
    AND r.last_reason IN ('ok', 'rate_limited', 'parked')
    AND r.last_try_at > COALESCE(r.last_scan_at, r.discovered_at)
  ORDER BY r.next_scan_at, r.pds_url
  LIMIT :count
)
RETURNING pds_url
