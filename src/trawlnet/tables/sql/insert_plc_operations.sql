-- A batch of operations.
INSERT INTO plc_operations (did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, prev, operation_json, nullified, seq, time_us)
