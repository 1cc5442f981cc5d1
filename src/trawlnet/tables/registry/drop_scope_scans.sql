-- A PDS is due for every scope.
DELETE FROM pds_scope_scans WHERE pds_url = :url
