-- The DIDs of a range that a crawl can visit, in order.
SELECT did, pds, signing_key
FROM plc_did_state FINAL
WHERE did > {after:String} AND did <= {last:String}
  AND pds != '' AND tombstoned = 0 AND NOT has({skip:Array(String)}, pds)
ORDER BY did
