-- The rows with most records, then those with most accounts.
SELECT * FROM pds_entries
ORDER BY chive_record_count DESC, COALESCE(account_count, 0) DESC, pds_url
LIMIT :count
