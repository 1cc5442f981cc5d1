-- Take one row, due or not, unless somebody has it.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now
WHERE pds_url = :url AND (lease_until IS NULL OR lease_until <= :now)
RETURNING pds_url
