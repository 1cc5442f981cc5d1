-- Repos that a whole walk did not meet.
DELETE FROM scan_repos WHERE pds_url = :pds_url AND scope = :scope AND walk < :walk
