-- A record as it was read now. Whoever writes it holds the claim on its PDS.
INSERT INTO invalid_records (uri, cid, did, rkey, collection, pds_url, raw_json, problem,
  indexed_at, scan)
VALUES (:uri, :cid, :did, :rkey, :collection, :pds_url, :raw_json, :problem, :indexed_at, :scan)
ON CONFLICT (uri) DO UPDATE SET
  cid = excluded.cid,
  did = excluded.did,
  rkey = excluded.rkey,
  collection = excluded.collection,
  pds_url = excluded.pds_url,
  raw_json = excluded.raw_json,
  problem = excluded.problem,
  scan = excluded.scan,
  deleted_at = NULL,
  indexed_at = CASE
    WHEN excluded.indexed_at IS NULL THEN NULL
    WHEN invalid_records.cid = excluded.cid AND invalid_records.indexed_at IS NOT NULL THEN invalid_records.indexed_at
    ELSE excluded.indexed_at
  END
