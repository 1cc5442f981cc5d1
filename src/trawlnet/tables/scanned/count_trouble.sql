-- Repos that could not be read in this walk, by what was wrong.
SELECT trouble, COUNT(*) FROM scan_repos
WHERE pds_url = :pds_url AND walk = :walk AND trouble <> '' GROUP BY trouble ORDER BY 2 DESC, 1
