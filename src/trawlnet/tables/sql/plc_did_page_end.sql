-- The DID up to which the next page looks; FINAL over that range alone stays cheap.
SELECT max(did) FROM
(
    SELECT did FROM plc_did_state WHERE did > {after:String} ORDER BY did LIMIT {size:UInt64}
)
