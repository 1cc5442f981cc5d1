-- When the first row is due whose last scan was cut short, or put off by its server.
SELECT MIN(next_scan_at) FROM pds_registry
WHERE (lease_until IS NULL OR lease_until <= :now)
  AND NOT (:skip_connected AND is_relay_connected)
  AND last_reason IN ('ok', 'rate_limited', 'parked')
  AND last_try_at > COALESCE(last_scan_at, discovered_at)
