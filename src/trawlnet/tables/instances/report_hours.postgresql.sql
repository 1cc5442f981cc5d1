-- Instances by the hour in which they ended, the latest first.
SELECT to_char(date_completed AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24'), COUNT(*)
FROM instance
GROUP BY 1
ORDER BY 1 DESC
LIMIT :most
