-- Rows whose last tries failed, in the order of their URLs; an empty reason lets all pass.
SELECT * FROM pds_entries
WHERE consecutive_failures > 0 AND pds_url > :after AND (:reason = '' OR last_reason = :reason)
ORDER BY pds_url
LIMIT :count
