-- The servers that DIDs live on now, with how many do.
SELECT pds, count()
FROM plc_did_state FINAL
WHERE pds != '' AND tombstoned = 0
GROUP BY pds
ORDER BY pds
