-- Whether a PDS is still claimed by its scan; nobody can claim it before the transaction ends.
SELECT 1 FROM pds_registry WHERE pds_url = :pds_url AND lease_owner = :lease FOR UPDATE
