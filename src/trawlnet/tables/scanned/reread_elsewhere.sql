-- Other PDSes that list an account read it again: its records may be there now.
UPDATE scan_repos SET rev = '' WHERE did = :did AND pds_url <> :pds_url
