-- Instances by the hour in which they ended, the latest first.
SELECT substr(date_completed, 1, 13), COUNT(*)
FROM instance
GROUP BY substr(date_completed, 1, 13)
ORDER BY 1 DESC
LIMIT :most
