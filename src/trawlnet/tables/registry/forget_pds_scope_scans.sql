-- Everything.
DELETE FROM pds_scope_scans
