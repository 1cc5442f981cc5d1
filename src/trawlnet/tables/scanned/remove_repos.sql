-- The repos of a PDS that is removed.
DELETE FROM scan_repos WHERE pds_url = :pds_url
