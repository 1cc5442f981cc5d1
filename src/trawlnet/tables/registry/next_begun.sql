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
