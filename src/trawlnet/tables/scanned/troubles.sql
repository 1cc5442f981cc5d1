-- Active repos of a walk by what was wrong with them, if anything.
SELECT trouble, COUNT(*) FROM scan_repos
WHERE pds_url = :pds_url AND scope = :scope AND walk = :walk AND is_active = 1 GROUP BY trouble
