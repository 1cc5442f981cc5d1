-- Take the most urgent rows that are due, for as long as the lease lasts. A lease that has run out
-- is its holder's no more, so what a dead process was scanning is due again.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now
WHERE pds_url IN (
  SELECT pds_url FROM pds_registry
  WHERE (lease_until IS NULL OR lease_until <= :now)
    AND (next_scan_at IS NULL OR next_scan_at <= :now)
    AND NOT (:skip_connected AND is_relay_connected)
    AND NOT (:skip_begun AND COALESCE(last_reason IN ('ok', 'rate_limited', 'parked')
      AND last_try_at > COALESCE(last_scan_at, discovered_at), FALSE))
  ORDER BY scan_order, pds_url
  LIMIT :count
)
RETURNING pds_url
