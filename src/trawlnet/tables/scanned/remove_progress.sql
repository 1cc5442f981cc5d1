-- The walks over a PDS that is removed.
DELETE FROM scan_progress WHERE pds_url = :pds_url
