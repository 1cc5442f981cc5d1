-- Write down how a scan ended, if the lease is still its holder's.
UPDATE pds_registry
SET status = :status, last_scan_at = :last_scan_at, next_scan_at = :next_scan_at,
  has_chive_records = :has_chive_records, chive_record_count = :chive_record_count,
  indexed_record_count = :indexed_record_count, consecutive_failures = :consecutive_failures,
  scan_priority = :scan_priority, scan_order = :scan_order, last_error = :last_error,
  last_try_at = :last_try_at, last_reason = :last_reason, updated_at = :updated_at,
  lease_owner = NULL, lease_until = NULL
WHERE pds_url = :url AND lease_owner = :owner AND lease_until > :updated_at
