-- A record as it was read now. Whoever writes it holds the claim on its PDS.
INSERT INTO eprints (uri, cid, did, rkey, collection, pds_url, raw_json, title, abstract, license,
  submitted_by, authors, document_cid, document_mime, document_size, created_at, indexed_at, scan)
VALUES (:uri, :cid, :did, :rkey, :collection, :pds_url, :raw_json, :title, :abstract, :license,
  :submitted_by, :authors, :document_cid, :document_mime, :document_size, :created_at,
  :indexed_at, :scan)
ON CONFLICT (uri) DO UPDATE SET
  cid = excluded.cid,
  did = excluded.did,
  rkey = excluded.rkey,
  collection = excluded.collection,
  pds_url = excluded.pds_url,
  raw_json = excluded.raw_json,
  title = excluded.title,
  abstract = excluded.abstract,
  license = excluded.license,
  submitted_by = excluded.submitted_by,
  authors = excluded.authors,
  document_cid = excluded.document_cid,
  document_mime = excluded.document_mime,
  document_size = excluded.document_size,
  created_at = excluded.created_at,
  scan = excluded.scan,
  deleted_at = NULL,
  indexed_at = CASE
    WHEN excluded.indexed_at IS NULL THEN NULL
    WHEN eprints.cid = excluded.cid AND eprints.indexed_at IS NOT NULL THEN eprints.indexed_at
    ELSE excluded.indexed_at
  END
