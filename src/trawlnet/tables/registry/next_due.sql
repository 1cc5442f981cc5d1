-- When the next row will be due that is not being scanned, or whose lease may run out.
SELECT MIN(CASE WHEN lease_until IS NOT NULL AND (next_scan_at IS NULL OR lease_until > next_scan_at)
  THEN lease_until ELSE COALESCE(next_scan_at, discovered_at) END)
FROM pds_registry
