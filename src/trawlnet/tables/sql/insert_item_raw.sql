-- The items of a batch.
INSERT INTO item_raw (id, raw_json)
