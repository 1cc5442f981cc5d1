-- How many DIDs name an endpoint that is not used, by reason.
SELECT pds_refused, count()
FROM plc_did_state FINAL
WHERE pds_refused != ''
GROUP BY pds_refused
ORDER BY pds_refused
