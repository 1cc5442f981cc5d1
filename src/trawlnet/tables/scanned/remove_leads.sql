-- The leads of a PDS that is removed.
DELETE FROM scan_leads WHERE pds_url = :pds_url
