-- How many hosts of a domain are known of which none was ever scanned to the end.
SELECT COUNT(*) FROM pds_registry WHERE registrable_domain = :domain AND last_scan_at IS NULL
