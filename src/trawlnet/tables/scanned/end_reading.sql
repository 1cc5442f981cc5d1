-- A repo has been read to its end, or found to have nothing for us, at this rev.
UPDATE scan_repos SET rev = :rev, is_pending = 0, is_held = :is_held, todo = NULL,
  todo_cursor = '', todo_pages = 0, by_names = 0, is_flawed = 0, reading = :reading,
  trouble = :trouble
WHERE pds_url = :pds_url AND scope = :scope AND did = :did AND reading <= :reading
