-- The same for scans that were cut short: whoever has waited longest goes first, so that each has
-- its turn, however important the others are.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now
WHERE pds_url = ANY(ARRAY(
  SELECT pds_url FROM pds_registry
  WHERE (lease_until IS NULL OR lease_until <= :now)
    AND (next_scan_at IS NULL OR next_scan_at <= :now)
    AND NOT (:skip_connected AND is_relay_connected)
    AND last_reason IN ('ok', 'rate_limited', 'parked')
    AND last_try_at > COALESCE(last_scan_at, discovered_at)
  ORDER BY next_scan_at, pds_url
  LIMIT :count
  FOR UPDATE SKIP LOCKED
))
RETURNING pds_url
