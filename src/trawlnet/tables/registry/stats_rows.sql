-- Rows by status and source, how many of them are due, and what they hold.
SELECT status, discovery_source, COUNT(*),
  SUM(CASE WHEN has_chive_records THEN 1 ELSE 0 END),
  SUM(CASE WHEN (lease_until IS NULL OR lease_until <= :now)
    AND (next_scan_at IS NULL OR next_scan_at <= :now) THEN 1 ELSE 0 END),
  SUM(chive_record_count), SUM(indexed_record_count), SUM(COALESCE(account_count, 0))
FROM pds_registry
GROUP BY status, discovery_source
