-- A record as it was read now. Whoever writes it holds the claim on its PDS.
INSERT INTO tags (uri, cid, did, rkey, collection, pds_url, raw_json, eprint_uri, tag, created_at,
  indexed_at, scan)
VALUES (:uri, :cid, :did, :rkey, :collection, :pds_url, :raw_json, :eprint_uri, :tag, :created_at,
  :indexed_at, :scan)
ON CONFLICT (uri) DO UPDATE SET
  cid = excluded.cid,
  did = excluded.did,
  rkey = excluded.rkey,
  collection = excluded.collection,
  pds_url = excluded.pds_url,
  raw_json = excluded.raw_json,
  eprint_uri = excluded.eprint_uri,
  tag = excluded.tag,
  created_at = excluded.created_at,
  scan = excluded.scan,
  deleted_at = NULL,
  indexed_at = CASE
    WHEN excluded.indexed_at IS NULL THEN NULL
    WHEN tags.cid = excluded.cid AND tags.indexed_at IS NOT NULL THEN tags.indexed_at
    ELSE excluded.indexed_at
  END
