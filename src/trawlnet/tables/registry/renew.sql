-- Keep a lease that is still held.
UPDATE pds_registry SET lease_until = :until
WHERE pds_url = :url AND lease_owner = :owner AND lease_until > :now
