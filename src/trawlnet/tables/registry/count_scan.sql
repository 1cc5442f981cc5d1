-- One more scan in this hour.
INSERT INTO pds_scan_hours (scan_hour, result, reason, scans)
VALUES (:scan_hour, :result, :reason, 1)
ON CONFLICT (scan_hour, result, reason) DO UPDATE SET scans = pds_scan_hours.scans + 1
