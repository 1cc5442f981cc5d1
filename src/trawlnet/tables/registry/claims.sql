-- Who holds how many claims.
SELECT lease_owner, COUNT(*) FROM pds_registry
WHERE lease_until > :now
GROUP BY lease_owner
ORDER BY lease_owner
