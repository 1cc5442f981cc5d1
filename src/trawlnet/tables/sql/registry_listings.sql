-- name: account_counts
-- How many accounts each PDS has, as relays report.
SELECT pds_url, account_count FROM pds_entries ORDER BY pds_url

-- name: browse
-- A page of rows in the order that was asked for; an empty filter lets all pass.
SELECT * FROM pds_entries
WHERE (:status = '' OR status = :status)
  AND (:source = '' OR discovery_source = :source)
  AND (:pattern = '' OR pds_url LIKE :pattern ESCAPE '!')
ORDER BY CASE WHEN :sort = 'records' THEN chive_record_count END DESC NULLS LAST,
  CASE WHEN :sort = 'accounts' THEN account_count END DESC NULLS LAST,
  CASE WHEN :sort = 'scanned' THEN last_scan_at END DESC NULLS LAST,
  CASE WHEN :sort = 'failures' THEN consecutive_failures END DESC NULLS LAST,
  pds_url
LIMIT :count OFFSET :skip

-- name: browse_total
-- How many rows fit, and what they hold together.
SELECT COUNT(*), COALESCE(SUM(chive_record_count), 0), COALESCE(SUM(account_count), 0)
FROM pds_entries
WHERE (:status = '' OR status = :status)
  AND (:source = '' OR discovery_source = :source)
  AND (:pattern = '' OR pds_url LIKE :pattern ESCAPE '!')

-- name: largest
-- The rows with most records, then those with most accounts.
SELECT * FROM pds_entries
ORDER BY chive_record_count DESC, COALESCE(account_count, 0) DESC, pds_url
LIMIT :count

-- name: listing
-- Rows in the order of their URLs; an empty filter lets all pass.
SELECT * FROM pds_entries
WHERE pds_url > :after
  AND (:status = '' OR status = :status)
  AND (:source = '' OR discovery_source = :source)
  AND (:pattern = '' OR pds_url LIKE :pattern ESCAPE '!')
ORDER BY pds_url
LIMIT :count

-- name: named_like
-- URLs with this text in them, some of which may be below a domain.
SELECT pds_url FROM pds_registry WHERE pds_url LIKE :pattern ESCAPE '!'

-- name: stats_attempts
-- Every scan there was, by what it came to.
SELECT reason, result, SUM(scans) FROM pds_scan_hours GROUP BY reason, result

-- name: stats_failures
-- Rows whose last try failed, by why.
SELECT COALESCE(last_reason, ''), status, COUNT(*)
FROM pds_registry
WHERE consecutive_failures > 0
GROUP BY last_reason, status

-- name: stats_hours
-- Scans by the hour, the result and the reason.
SELECT scan_hour, result, reason, scans
FROM pds_scan_hours
WHERE scan_hour >= :since
ORDER BY scan_hour, result, reason

-- name: stats_rows
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
