-- Whether a PDS is still claimed by its scan. The transaction has the database to itself.
SELECT 1 FROM pds_registry WHERE pds_url = :pds_url AND lease_owner = :lease
