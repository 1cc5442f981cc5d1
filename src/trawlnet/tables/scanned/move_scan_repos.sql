-- Repos keep what was read of them, under the scope of the walk that met them. A reading under way
-- begins anew: whether its collections were described or named is not known.
INSERT INTO scan_repos (pds_url, scope, did, rev, listed_rev, walk, is_active, is_pending, is_held,
  reading, reading_rev, todo, todo_cursor, todo_pages, by_names, is_flawed, trouble)
SELECT r.pds_url, COALESCE(p.scope, ''), r.did, r.rev, r.listed_rev, r.walk, r.is_active,
  r.is_pending, r.is_held, r.reading, r.reading_rev, NULL, '', 0, 0, 0, r.trouble
FROM old_scan_repos AS r LEFT JOIN old_scan_progress AS p ON p.pds_url = r.pds_url
