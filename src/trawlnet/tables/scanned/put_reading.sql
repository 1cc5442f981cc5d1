-- How far the reading of a repo has come, unless a later reading has begun.
INSERT INTO scan_repos (pds_url, scope, did, rev, listed_rev, walk, is_active, is_pending, is_held,
  reading, reading_rev, todo, todo_cursor, todo_pages, by_names, is_flawed, trouble)
VALUES (:pds_url, :scope, :did, '', :reading_rev, 0, 1, 1, 1,
  :reading, :reading_rev, :todo, :todo_cursor, :todo_pages, :by_names, :is_flawed, '')
ON CONFLICT (pds_url, scope, did) DO UPDATE SET
  reading = excluded.reading,
  reading_rev = excluded.reading_rev,
  todo = excluded.todo,
  todo_cursor = excluded.todo_cursor,
  todo_pages = excluded.todo_pages,
  by_names = excluded.by_names,
  is_flawed = excluded.is_flawed,
  is_pending = 1,
  is_held = 1
WHERE scan_repos.reading <= excluded.reading
