-- When the first row is due whose last scan was cut short: it answered, and there is more to ask.
SELECT MIN(next_scan_at) FROM pds_registry
WHERE (lease_until IS NULL OR lease_until <= :now)
  AND NOT (:skip_connected AND is_relay_connected)
  AND (last_reason = 'ok' OR :or_put_off AND last_reason IN ('rate_limited', 'parked'))
  AND last_try_at > COALESCE(last_scan_at, discovered_at)
