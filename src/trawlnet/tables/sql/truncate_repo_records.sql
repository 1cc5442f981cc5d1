-- Forget all rows of repo_records.
TRUNCATE TABLE repo_records
