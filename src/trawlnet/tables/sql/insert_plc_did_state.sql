-- What a batch of operations made of their DIDs.
INSERT INTO plc_did_state (did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, tombstoned, seq, time_us, version)
