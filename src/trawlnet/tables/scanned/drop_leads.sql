-- The next walk asks anew.
DELETE FROM scan_leads WHERE pds_url = :pds_url AND scope = :scope
