-- A repo whose records are withdrawn is read again when it comes back.
UPDATE scan_repos SET rev = '', is_held = 0, is_pending = 0, todo = NULL
WHERE pds_url = :pds_url AND scope = :scope AND did = :did
