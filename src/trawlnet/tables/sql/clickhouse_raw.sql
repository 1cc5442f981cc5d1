-- name: insert_item_raw
-- The items of a batch.
INSERT INTO item_raw (id, raw_json)

-- name: insert_pgcr_raw
-- The reports of a batch.
INSERT INTO pgcr_raw (instance_id, raw_json)

-- name: item_raw_among
-- Those of these items that are there already.
SELECT DISTINCT id FROM item_raw WHERE id IN (SELECT toUInt64(arrayJoin({ids:Array(String)})))

-- name: pgcr_raw_among
-- Those of these instances whose report is there already.
SELECT DISTINCT instance_id FROM pgcr_raw
WHERE instance_id IN (SELECT toUInt64(arrayJoin({ids:Array(String)})))
