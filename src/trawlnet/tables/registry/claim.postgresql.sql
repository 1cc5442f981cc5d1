-- Take the most urgent rows that are due, for as long as the lease lasts. A lease that has run out
-- is its holder's no more, so what a dead process was scanning is due again. A row that waits only
-- because a scan for another scope was complete is due for whoever has a scope of their own. Rows
-- that another claim is just taking are passed over: two claims never wait for each other, and never
-- share.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now
WHERE pds_url = ANY(ARRAY(
  SELECT r.pds_url FROM pds_registry AS r
  WHERE (r.lease_until IS NULL OR r.lease_until <= :now)
    AND (r.wanted_until IS NULL OR r.wanted_until <= :now)
    AND NOT (:skip_connected AND r.is_relay_connected)
    AND NOT EXISTS (SELECT 1 FROM pds_scope_scans AS s
      WHERE s.pds_url = r.pds_url AND s.scope = :scope AND s.next_scan_at > :now)
    AND (r.next_scan_at IS NULL OR r.next_scan_at <= :now OR :scope <> '' AND r.next_scan_at IN (
      SELECT s.next_scan_at FROM pds_scope_scans AS s WHERE s.pds_url = r.pds_url))
    AND NOT (:skip_begun AND COALESCE(r.last_reason IN ('ok', 'rate_limited', 'parked')
      AND r.last_try_at > COALESCE(r.last_scan_at, r.discovered_at), FALSE))
  ORDER BY r.scan_order, r.pds_url
  LIMIT :count
  FOR UPDATE SKIP LOCKED
))
RETURNING pds_url
