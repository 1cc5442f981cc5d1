-- name: insert_plc_did_state
-- What a batch of operations made of their DIDs. No DID is in a batch twice.
INSERT INTO plc_did_state (did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, tombstoned, seq, time_us, version)
SETTINGS optimize_on_insert = 0

-- name: insert_plc_operations
-- A batch of operations. Repeats in it vanish with all others when parts are merged: to look for
-- them now, in a batch that hardly ever has one, would be a fifth of the work.
INSERT INTO plc_operations (did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, prev, operation_json, nullified, seq, time_us)
SETTINGS optimize_on_insert = 0

-- name: mirror_cursor
-- How far a mirror has come.
SELECT source, form, position FROM mirror_cursors FINAL WHERE name = {name:String}

-- name: nullify_operations
-- Mark stored operations as undone by a later one.
INSERT INTO plc_operations (did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, prev, operation_json, nullified, seq, time_us)
SELECT did, cid, operation_type, created_at, handle, pds, pds_refused, signing_key, prev, operation_json, 1, seq, time_us
FROM plc_operations FINAL
WHERE did IN {dids:Array(String)} AND cid IN {cids:Array(String)} AND nullified = 0

-- name: plc_counts
-- How much of the directory is here.
SELECT
    (SELECT count() FROM plc_operations FINAL),
    (SELECT countIf(nullified = 1) FROM plc_operations FINAL),
    count(), countIf(tombstoned = 1), countIf(pds != ''), uniqExactIf(pds, pds != '')
FROM plc_did_state FINAL

-- name: plc_did_page
-- The DIDs of a range that a crawl can visit, in order; of one share of the lanes if buckets are
-- given. A lane is the origin without its scheme; its bucket is in the first bytes of its SHA-1.
SELECT did, pds, signing_key
FROM plc_did_state FINAL
WHERE did > {after:String} AND did <= {last:String}
  AND pds != '' AND tombstoned = 0 AND NOT has({skip:Array(String)}, pds)
  AND (empty({buckets:Array(String)}) OR has({buckets:Array(String)}, toString(bitAnd(
    reinterpretAsUInt16(reverse(substring(SHA1(replaceRegexpOne(pds, '^https?://', '')), 1, 2))), 1023))))
ORDER BY did

-- name: plc_did_page_end
-- The DID up to which the next page looks; FINAL over that range alone stays cheap.
SELECT max(did) FROM
(
    SELECT did FROM plc_did_state WHERE did > {after:String} ORDER BY did LIMIT {size:UInt64}
)

-- name: plc_endpoints
-- The servers that DIDs live on now, with how many do.
SELECT pds, count()
FROM plc_did_state FINAL
WHERE pds != '' AND tombstoned = 0
GROUP BY pds
ORDER BY pds

-- name: plc_heads
-- The newest operation of each of these DIDs. A server takes lists of some length only, and to ask
-- for many at once reads little more than to ask for a few. All rows of a DID have the same key, so
-- that FINAL may come behind PREWHERE: parts without the DID are not read any further.
SELECT did, cid
FROM plc_did_state FINAL
PREWHERE did IN arrayConcat({first:Array(String)}, {second:Array(String)}, {third:Array(String)}, {fourth:Array(String)})

-- name: plc_links
-- Everything stored about these DIDs, as links of a chain.
SELECT did, cid, prev, if(seq > 0, seq, toUInt64(time_us)), nullified
FROM plc_operations FINAL
WHERE did IN {dids:Array(String)}

-- name: plc_keys
-- The signing keys that these DIDs have had, by operations that stand.
SELECT DISTINCT did, signing_key
FROM plc_operations FINAL
WHERE did IN {dids:Array(String)} AND NOT nullified AND signing_key != ''

-- name: plc_refusals
-- How many DIDs name an endpoint that is not used, by reason.
SELECT pds_refused, count()
FROM plc_did_state FINAL
WHERE pds_refused != ''
GROUP BY pds_refused
ORDER BY pds_refused

-- name: plc_refused_endpoints
-- How many different endpoints are not used, by why.
SELECT pds_refused, uniqExact(if(
    operation_type = 'create',
    JSONExtractString(operation_json, 'service'),
    JSONExtractString(operation_json, 'services', 'atproto_pds', 'endpoint')
))
FROM plc_operations
WHERE pds_refused != ''
GROUP BY pds_refused
ORDER BY pds_refused

-- name: plc_states
-- What these DIDs stand for now.
SELECT did, pds, signing_key, handle, tombstoned
FROM plc_did_state FINAL
WHERE did IN {dids:Array(String)}

-- name: plc_unhoused
-- The DIDs of a range that no crawl can visit, in order, and why.
SELECT did, multiIf(tombstoned, 'tombstoned', pds_refused != '', pds_refused, 'none')
FROM plc_did_state FINAL
WHERE did > {after:String} AND did <= {last:String} AND (pds = '' OR tombstoned = 1)
ORDER BY did
LIMIT {most:UInt64}

-- name: save_mirror_cursor
-- Remember how far a mirror has come.
INSERT INTO mirror_cursors (name, source, form, position)
SELECT {name:String}, {source:String}, {form:String}, {position:UInt64}
