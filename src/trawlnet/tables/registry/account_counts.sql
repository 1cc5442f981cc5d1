-- How many accounts each PDS has, as far as a relay has told.
SELECT pds_url, account_count FROM pds_entries ORDER BY pds_url
