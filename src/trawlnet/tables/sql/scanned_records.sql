-- name: ask_mention
-- It was looked up now.
UPDATE scan_mentions SET asked_at = :now WHERE did = :did

-- name: erase_record
-- What a PDS that wants to be forgotten has shown.
DELETE FROM $table WHERE pds_url = :pds_url

-- name: every_record
-- One table of them all, which both databases search by the index of each.
SELECT '$table' AS record_table, uri, pds_url, did, collection, indexed_at, deleted_at, scan FROM $table

-- name: forget_record
-- Begin anew.
DELETE FROM $table

-- name: held
-- Live records of a PDS by collection, and how many of them are indexed.
SELECT collection, COUNT(*), COUNT(indexed_at) FROM ($every_record) AS every_record
WHERE pds_url = :pds_url AND deleted_at IS NULL
GROUP BY collection

-- name: held_everywhere
-- Live records of all PDSes by collection, and how many of them are indexed.
SELECT collection, COUNT(*), COUNT(indexed_at) FROM ($every_record) AS every_record
WHERE deleted_at IS NULL
GROUP BY collection
ORDER BY COUNT(*) DESC, collection
LIMIT :most

-- name: held_repos
-- Accounts of a PDS that were read, whatever for.
SELECT DISTINCT did FROM scan_repos WHERE pds_url = :pds_url AND is_held = 1

-- name: held_so_far
-- Live records of each PDS that was not scanned to its end yet, and how many of them are indexed.
SELECT pds_url, COUNT(*), COUNT(indexed_at) FROM ($every_record) AS every_record
WHERE pds_url IN (SELECT pds_url FROM pds_registry WHERE has_chive_records IS NULL)
  AND deleted_at IS NULL
GROUP BY pds_url

-- name: live
-- Which tables have live records of a repo, of which collections.
SELECT DISTINCT record_table, collection FROM ($every_record) AS every_record
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
-- A record as it was read now. The writer holds the claim on its PDS.
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
SELECT scan FROM ($every_record) AS every_record WHERE uri = :uri AND pds_url = :pds_url

-- name: withdraw_record
-- What the readings before this one saw in a collection of a repo, and this one did not.
UPDATE $table SET deleted_at = :now
WHERE pds_url = :pds_url AND did = :did AND collection = :collection AND scan < :scan
  AND deleted_at IS NULL
