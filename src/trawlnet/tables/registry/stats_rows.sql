-- Rows by status and source, how many of them are due, and what they hold. Whose claim has run out
-- is being scanned by nobody, and counts as it was before.
SELECT shown, discovery_source, COUNT(*),
  SUM(CASE WHEN has_chive_records THEN 1 ELSE 0 END),
  SUM(CASE WHEN (lease_until IS NULL OR lease_until <= :now)
    AND (next_scan_at IS NULL OR next_scan_at <= :now) THEN 1 ELSE 0 END),
  SUM(chive_record_count), SUM(indexed_record_count), SUM(COALESCE(account_count, 0))
FROM (
  SELECT *, CASE
    WHEN status <> 'scanning' OR lease_until > :now THEN status
    WHEN consecutive_failures >= 5 THEN 'unreachable'
    WHEN last_scan_at IS NULL THEN 'pending'
    WHEN has_chive_records THEN 'active'
    ELSE 'no_chive_records'
  END AS shown
  FROM pds_registry
) AS rows_as_shown
GROUP BY shown, discovery_source
