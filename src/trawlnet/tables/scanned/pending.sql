-- Repos of a PDS that are still to be read, those already begun first; with the last reading of
-- each, and whether there may be records of it, whatever it was read for.
SELECT did, listed_rev, reading, reading_rev, todo, todo_cursor, todo_pages, by_names, is_flawed,
  (SELECT MAX(o.reading) FROM scan_repos AS o WHERE o.did = r.did AND o.pds_url = r.pds_url),
  (SELECT MAX(o.is_held) FROM scan_repos AS o WHERE o.did = r.did AND o.pds_url = r.pds_url), rev
FROM scan_repos AS r WHERE pds_url = :pds_url AND scope = :scope AND is_pending = 1
ORDER BY CASE WHEN todo IS NULL THEN 1 ELSE 0 END, did LIMIT :most
