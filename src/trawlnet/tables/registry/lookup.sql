-- Where a DID was found to live.
SELECT pds_url, reason, asked_at FROM pds_lookups WHERE did = :did
