-- Every scan there was, by what it came to.
SELECT reason, result, SUM(scans) FROM pds_scan_hours GROUP BY reason, result
