-- Begin anew.
DELETE FROM pds_scan_hours
