-- What these DIDs stand for now.
SELECT did, pds, signing_key, handle, tombstoned
FROM plc_did_state FINAL
WHERE did IN {dids:Array(String)}
