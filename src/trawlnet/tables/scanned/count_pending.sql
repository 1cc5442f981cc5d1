-- How many repos of a PDS are still to be read.
SELECT COUNT(*) FROM scan_repos WHERE pds_url = :pds_url AND scope = :scope AND is_pending = 1
