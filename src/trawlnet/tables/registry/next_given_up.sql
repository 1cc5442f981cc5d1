-- When the first claim runs out, should its holder be dead.
SELECT MIN(lease_until) FROM pds_registry WHERE lease_until > :now
