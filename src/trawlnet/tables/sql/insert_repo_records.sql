-- A batch of records.
INSERT INTO repo_records (repo, collection, rkey, operation, record_json, created_at, time_us)
