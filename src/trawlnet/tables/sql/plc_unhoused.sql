-- The DIDs of a range that no crawl can visit, in order, and why.
SELECT did, multiIf(tombstoned, 'tombstoned', pds_refused != '', pds_refused, 'none')
FROM plc_did_state FINAL
WHERE did > {after:String} AND did <= {last:String} AND (pds = '' OR tombstoned = 1)
ORDER BY did
LIMIT {most:UInt64}
