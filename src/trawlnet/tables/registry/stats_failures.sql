-- Rows whose last try failed, by why.
SELECT COALESCE(last_reason, ''), status, COUNT(*)
FROM pds_registry
WHERE consecutive_failures > 0
GROUP BY last_reason, status
