-- Make failed rows due now, with a clean slate; those being scanned are left alone.
UPDATE pds_registry
SET status = 'pending', next_scan_at = :now, consecutive_failures = 0, scan_priority = :priority,
  scan_order = :scan_order, updated_at = :now
WHERE consecutive_failures > 0 AND status <> 'scanning'
  AND (:reason = '' OR last_reason = :reason)
