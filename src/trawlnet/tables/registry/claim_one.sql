-- Take one row, due or not, unless somebody has it, or waits for it.
UPDATE pds_registry
SET status = 'scanning', lease_owner = :owner, lease_until = :until, updated_at = :now,
  wanted_by = NULL, wanted_until = NULL
WHERE pds_url = :url AND (lease_until IS NULL OR lease_until <= :now)
  AND (wanted_until IS NULL OR wanted_until <= :now OR wanted_by = :owner)
RETURNING pds_url
