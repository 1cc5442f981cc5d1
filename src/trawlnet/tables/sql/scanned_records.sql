-- name: ask_mention
-- It was looked up now.
UPDATE scan_mentions SET asked_at = :now WHERE did = :did

-- name: erase_record
-- What a PDS that wants to be forgotten has shown.
DELETE FROM $table WHERE pds_url = :pds_url

-- name: forget_record
-- Begin anew.
DELETE FROM $table

-- name: held
-- Live records of a PDS by collection, and how many of them are indexed.
SELECT collection, SUM(records), SUM(indexed) FROM (
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM eprints
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM reviews
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM endorsements
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM tags
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM records
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM invalid_records
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
) AS counted GROUP BY collection

-- name: held_everywhere
-- Live records of all PDSes by collection, and how many of them are indexed.
SELECT collection, SUM(records), SUM(indexed) FROM (
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM eprints
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM reviews
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM endorsements
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM tags
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM records
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM invalid_records
  WHERE deleted_at IS NULL GROUP BY collection
) AS counted GROUP BY collection
ORDER BY SUM(records) DESC, collection
LIMIT :most

-- name: held_repos
-- Accounts of a PDS that were read, whatever for.
SELECT DISTINCT did FROM scan_repos WHERE pds_url = :pds_url AND is_held = 1

-- name: live
-- Which tables have live records of a repo, of which collections.
SELECT DISTINCT 'eprints', collection FROM eprints
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'reviews', collection FROM reviews
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'endorsements', collection FROM endorsements
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'tags', collection FROM tags
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'records', collection FROM records
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'invalid_records', collection FROM invalid_records
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan

-- name: mentions
-- Accounts to be looked up: never asked for, or not for long.
SELECT did FROM scan_mentions
WHERE did > :after AND (asked_at IS NULL OR asked_at < :since)
ORDER BY did LIMIT :most

-- name: put_mention
-- An account that a record names; one that is known stays as it is.
INSERT INTO scan_mentions (did, asked_at) VALUES (:did, NULL)
ON CONFLICT (did) DO NOTHING

-- name: put_record
-- A record as it was read now. Whoever writes it holds the claim on its PDS.
INSERT INTO $table (uri, cid, did, rkey, collection, pds_url, raw_json, $columns, indexed_at, scan)
VALUES (:uri, :cid, :did, :rkey, :collection, :pds_url, :raw_json, $values, :indexed_at, :scan)
ON CONFLICT (uri) DO UPDATE SET
  cid = excluded.cid,
  did = excluded.did,
  rkey = excluded.rkey,
  collection = excluded.collection,
  pds_url = excluded.pds_url,
  raw_json = excluded.raw_json,
  $updates,
  scan = excluded.scan,
  deleted_at = NULL,
  indexed_at = CASE
    WHEN excluded.indexed_at IS NULL THEN NULL
    WHEN $table.cid = excluded.cid AND $table.indexed_at IS NOT NULL THEN $table.indexed_at
    ELSE excluded.indexed_at
  END

-- name: seen
-- The reading that saw a record last.
SELECT scan FROM eprints WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM reviews WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM endorsements WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM tags WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM records WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM invalid_records WHERE uri = :uri AND pds_url = :pds_url

-- name: withdraw_record
-- What the readings before this one saw in a collection of a repo, and this one did not.
UPDATE $table SET deleted_at = :now
WHERE pds_url = :pds_url AND did = :did AND collection = :collection AND scan < :scan
  AND deleted_at IS NULL
