-- The newest operation of each of these DIDs.
SELECT did, cid
FROM plc_did_state FINAL
WHERE did IN {dids:Array(String)}
