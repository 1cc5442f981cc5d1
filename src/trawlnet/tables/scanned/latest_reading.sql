-- The number of the last reading of a repo, whatever it was read for.
SELECT MAX(reading) FROM scan_repos WHERE did = :did AND pds_url = :pds_url
