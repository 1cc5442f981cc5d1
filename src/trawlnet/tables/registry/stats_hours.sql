-- Scans by the hour, the result and the reason.
SELECT scan_hour, result, reason, scans
FROM pds_scan_hours
WHERE scan_hour >= :since
ORDER BY scan_hour, result, reason
