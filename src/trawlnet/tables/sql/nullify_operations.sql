-- Mark stored operations as undone by a later one.
INSERT INTO plc_operations (did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, prev, operation_json, nullified, seq, time_us)
SELECT did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, prev, operation_json, 1, seq, time_us
FROM plc_operations FINAL
WHERE did IN {dids:Array(String)} AND cid IN {cids:Array(String)} AND nullified = 0
