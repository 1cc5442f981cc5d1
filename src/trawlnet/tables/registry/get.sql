-- One row.
SELECT * FROM pds_entries WHERE pds_url = :url
