-- How many rows fit, and what they hold together.
SELECT COUNT(*), COALESCE(SUM(chive_record_count), 0), COALESCE(SUM(account_count), 0)
FROM pds_entries
WHERE (:status = '' OR status = :status)
  AND (:source = '' OR discovery_source = :source)
  AND (:pattern = '' OR pds_url LIKE :pattern ESCAPE '!')
