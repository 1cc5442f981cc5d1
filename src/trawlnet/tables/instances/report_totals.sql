-- What the instances were like; fresh and flawless are not always known.
SELECT COUNT(*), COALESCE(SUM(player_count), 0),
  SUM(CASE WHEN completed THEN 1 ELSE 0 END),
  SUM(CASE WHEN fresh THEN 1 ELSE 0 END), COUNT(fresh),
  SUM(CASE WHEN flawless THEN 1 ELSE 0 END), COUNT(flawless)
FROM instance
