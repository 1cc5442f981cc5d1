-- Accounts of a PDS that were read, whatever for.
SELECT DISTINCT did FROM scan_repos WHERE pds_url = :pds_url AND is_held = 1
