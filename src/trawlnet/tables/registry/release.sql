-- Give back what was claimed: it is as due as before. Where a scan was begun, it ended now.
UPDATE pds_registry
SET status = :status, last_try_at = :last_try_at, lease_owner = NULL, lease_until = NULL,
  updated_at = :now
WHERE pds_url = :url AND lease_owner = :owner AND lease_until > :now
