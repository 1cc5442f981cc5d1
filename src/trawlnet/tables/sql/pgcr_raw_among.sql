-- Those of these instances whose report is there already.
SELECT DISTINCT instance_id FROM pgcr_raw
WHERE instance_id IN (SELECT toUInt64(arrayJoin({ids:Array(String)})))
