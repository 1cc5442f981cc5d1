-- Make a row that was given up or put off due now, unless it is being scanned.
UPDATE pds_registry
SET status = :status, next_scan_at = :next_scan_at, consecutive_failures = :consecutive_failures,
  scan_priority = :scan_priority, scan_order = :scan_order, updated_at = :now
WHERE pds_url = :url AND status IN ('unreachable', 'no_chive_records')
