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
