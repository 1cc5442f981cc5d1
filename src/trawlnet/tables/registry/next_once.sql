-- When to look again, for whoever scans until nothing is left: when the first scan that was cut
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
