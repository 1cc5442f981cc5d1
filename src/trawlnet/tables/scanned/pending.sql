-- Repos of a PDS that are still to be read, those already begun first.
SELECT did, listed_rev, reading, reading_rev, todo, todo_cursor, todo_pages, is_held
FROM scan_repos WHERE pds_url = :pds_url AND is_pending = 1
ORDER BY CASE WHEN todo IS NULL THEN 1 ELSE 0 END, did LIMIT :most
