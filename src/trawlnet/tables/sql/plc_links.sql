-- Everything stored about these DIDs, as links of a chain.
SELECT did, cid, prev, if(seq > 0, seq, toUInt64(time_us)), nullified
FROM plc_operations FINAL
WHERE did IN {dids:Array(String)}
