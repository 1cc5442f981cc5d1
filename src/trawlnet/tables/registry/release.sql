-- Give back what was claimed and not begun: it is as due as before.
UPDATE pds_registry
SET status = :status, lease_owner = NULL, lease_until = NULL, updated_at = :now
WHERE pds_url = :url AND lease_owner = :owner AND lease_until > :now
