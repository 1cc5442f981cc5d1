-- A record as it was read now. Whoever writes it holds the claim on its PDS.
INSERT INTO endorsements (uri, cid, did, rkey, collection, pds_url, raw_json, eprint_uri,
  contributions, comment, created_at, indexed_at, scan)
VALUES (:uri, :cid, :did, :rkey, :collection, :pds_url, :raw_json, :eprint_uri, :contributions,
  :comment, :created_at, :indexed_at, :scan)
ON CONFLICT (uri) DO UPDATE SET
  cid = excluded.cid,
  did = excluded.did,
  rkey = excluded.rkey,
  collection = excluded.collection,
  pds_url = excluded.pds_url,
  raw_json = excluded.raw_json,
  eprint_uri = excluded.eprint_uri,
  contributions = excluded.contributions,
  comment = excluded.comment,
  created_at = excluded.created_at,
  scan = excluded.scan,
  deleted_at = NULL,
  indexed_at = CASE
    WHEN excluded.indexed_at IS NULL THEN NULL
    WHEN endorsements.cid = excluded.cid AND endorsements.indexed_at IS NOT NULL THEN endorsements.indexed_at
    ELSE excluded.indexed_at
  END
