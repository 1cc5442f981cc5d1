-- One repo of a PDS, pending or not.
SELECT did, listed_rev, reading, reading_rev, todo, todo_cursor, todo_pages, is_held, rev
FROM scan_repos WHERE pds_url = :pds_url AND did = :did
