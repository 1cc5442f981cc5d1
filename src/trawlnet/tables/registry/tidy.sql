-- Whose claim has run out is being scanned by nobody.
UPDATE pds_registry
SET status = CASE
    WHEN consecutive_failures >= 5 THEN 'unreachable'
    WHEN last_scan_at IS NULL THEN 'pending'
    WHEN has_chive_records THEN 'active'
    ELSE 'no_chive_records'
  END,
  lease_owner = NULL, lease_until = NULL, updated_at = :now
WHERE status = 'scanning' AND lease_until <= :now
