-- Those of these items that are there already.
SELECT DISTINCT id FROM item_raw WHERE id IN (SELECT toUInt64(arrayJoin({ids:Array(String)})))
