-- The DIDs of a range that a crawl can visit, in order; of one share of the lanes if buckets are
-- given. A lane is the origin without its scheme; its bucket is in the first bytes of its SHA-1.
SELECT did, pds, signing_key
FROM plc_did_state FINAL
WHERE did > {after:String} AND did <= {last:String}
  AND pds != '' AND tombstoned = 0 AND NOT has({skip:Array(String)}, pds)
  AND (empty({buckets:Array(String)}) OR has({buckets:Array(String)}, toString(bitAnd(
    reinterpretAsUInt16(reverse(substring(SHA1(replaceRegexpOne(pds, '^https?://', '')), 1, 2))), 1023))))
ORDER BY did
