-- Rows in the order of their URLs; an empty filter lets all pass.
SELECT * FROM pds_entries
WHERE pds_url > :after
  AND (:status = '' OR status = :status)
  AND (:source = '' OR discovery_source = :source)
  AND (:pattern = '' OR pds_url LIKE :pattern ESCAPE '!')
ORDER BY pds_url
LIMIT :count
