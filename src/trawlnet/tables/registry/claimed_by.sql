-- Claims under names that begin so.
SELECT pds_url, lease_owner FROM pds_registry
WHERE SUBSTR(lease_owner, 1, LENGTH(:name)) = :name
