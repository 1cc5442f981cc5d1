-- The reports of a batch.
INSERT INTO pgcr_raw (instance_id, raw_json)
