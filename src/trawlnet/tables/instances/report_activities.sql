-- Instances by activity, those with most first; one without a name is told by its hash.
SELECT COALESCE(activity_hash.activity, 'hash ' || instance.hash), COUNT(*),
  SUM(CASE WHEN completed THEN 1 ELSE 0 END)
FROM instance JOIN activity_hash ON activity_hash.hash = instance.hash
GROUP BY COALESCE(activity_hash.activity, 'hash ' || instance.hash)
ORDER BY COUNT(*) DESC, 1
LIMIT :most
