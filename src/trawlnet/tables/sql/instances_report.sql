-- name: report_activities
-- Instances by activity, those with most first; an activity without a name is shown by its hash.
SELECT COALESCE(activity_hash.activity, 'hash ' || instance.hash), COUNT(*),
  SUM(CASE WHEN completed THEN 1 ELSE 0 END)
FROM instance JOIN activity_hash ON activity_hash.hash = instance.hash
GROUP BY COALESCE(activity_hash.activity, 'hash ' || instance.hash)
ORDER BY COUNT(*) DESC, 1
LIMIT :most

-- name: report_hours
-- Instances by the hour in which they ended, the latest first.
SELECT substr(date_completed, 1, 13), COUNT(*)
FROM instance
GROUP BY substr(date_completed, 1, 13)
ORDER BY 1 DESC
LIMIT :most

-- name: report_hours (postgresql)
-- Instances by the hour in which they ended, the latest first.
SELECT to_char(date_completed AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24'), COUNT(*)
FROM instance
GROUP BY 1
ORDER BY 1 DESC
LIMIT :most

-- name: report_totals
-- What the instances were like; fresh and flawless are not always known.
SELECT COUNT(*), COALESCE(SUM(player_count), 0),
  SUM(CASE WHEN completed THEN 1 ELSE 0 END),
  SUM(CASE WHEN fresh THEN 1 ELSE 0 END), COUNT(fresh),
  SUM(CASE WHEN flawless THEN 1 ELSE 0 END), COUNT(flawless)
FROM instance
