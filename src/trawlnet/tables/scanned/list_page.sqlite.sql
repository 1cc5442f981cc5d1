-- A page of a listing: what is new or has another rev is to be read. Counts what this walk saw first.
INSERT INTO scan_repos (pds_url, scope, did, rev, listed_rev, walk, is_active, is_pending, is_held,
  reading, reading_rev, todo, todo_cursor, todo_pages, by_names, is_flawed, trouble)
SELECT :pds_url, :scope, listed.did, '', listed.rev, :walk, listed.active, listed.pending, 0,
  0, '', NULL, '', 0, 0, 0, ''
FROM (
  SELECT json_extract(value, '$.did') AS did, json_extract(value, '$.rev') AS rev,
    json_extract(value, '$.active') AS active, json_extract(value, '$.pending') AS pending
  FROM json_each(:listed)
) AS listed
WHERE true
ON CONFLICT (pds_url, scope, did) DO UPDATE SET
  listed_rev = excluded.listed_rev,
  walk = excluded.walk,
  is_active = excluded.is_active,
  trouble = '',
  todo = CASE WHEN scan_repos.is_pending = 1 AND :afresh = 0 THEN scan_repos.todo END,
  is_pending = CASE
    WHEN excluded.is_pending = 0 THEN 0
    WHEN :afresh = 0 AND scan_repos.is_pending = 0 AND scan_repos.rev <> ''
      AND scan_repos.rev = excluded.listed_rev THEN 0
    ELSE 1
  END
WHERE scan_repos.walk < excluded.walk
