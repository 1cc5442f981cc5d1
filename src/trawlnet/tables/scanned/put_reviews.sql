-- A record as it was read now. Whoever writes it holds the claim on its PDS.
INSERT INTO reviews (uri, cid, did, rkey, collection, pds_url, raw_json, eprint_uri, parent_uri,
  body, created_at, indexed_at, scan)
VALUES (:uri, :cid, :did, :rkey, :collection, :pds_url, :raw_json, :eprint_uri, :parent_uri,
  :body, :created_at, :indexed_at, :scan)
ON CONFLICT (uri) DO UPDATE SET
  cid = excluded.cid,
  did = excluded.did,
  rkey = excluded.rkey,
  collection = excluded.collection,
  pds_url = excluded.pds_url,
  raw_json = excluded.raw_json,
  eprint_uri = excluded.eprint_uri,
  parent_uri = excluded.parent_uri,
  body = excluded.body,
  created_at = excluded.created_at,
  scan = excluded.scan,
  deleted_at = NULL,
  indexed_at = CASE
    WHEN excluded.indexed_at IS NULL THEN NULL
    WHEN reviews.cid = excluded.cid AND reviews.indexed_at IS NOT NULL THEN reviews.indexed_at
    ELSE excluded.indexed_at
  END
