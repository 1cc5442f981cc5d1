-- One row less.
DELETE FROM pds_registry WHERE pds_url = :url
