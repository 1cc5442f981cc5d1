-- name: create_pds_streams
-- How far each firehose was read; what its messages ask for is written in the same transaction.
CREATE TABLE pds_streams (
  host TEXT PRIMARY KEY,
  seq BIGINT NOT NULL,
  time TEXT NOT NULL,
  looks_back BIGINT NOT NULL,
  saved_at DOUBLE PRECISION NOT NULL
)

-- name: create_pds_looks
-- Accounts that a firehose says have changed, each at the PDS where it is looked at; empty while
-- nobody knows where it lives. It waits for a look while it was asked for more often than seen.
CREATE TABLE pds_looks (
  pds_url TEXT NOT NULL,
  did TEXT NOT NULL,
  asked BIGINT NOT NULL,
  seen BIGINT NOT NULL,
  is_moved BIGINT NOT NULL,
  tries BIGINT NOT NULL,
  due TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (pds_url, did)
)

-- name: create_pds_rescans
-- PDSes that a firehose says have changed, without saying which accounts.
CREATE TABLE pds_rescans (
  pds_url TEXT PRIMARY KEY,
  asked_at TIMESTAMPTZ NOT NULL
)

-- name: ask_again
-- An account that waits, or was looked at just now, is to be looked at once more.
UPDATE pds_looks SET asked = asked + 1,
  is_moved = CASE WHEN is_moved > :is_moved THEN is_moved ELSE :is_moved END
WHERE pds_url = :url AND did = :did

-- name: ask_look
-- An account of a PDS that the registry knows is to be looked at.
INSERT INTO pds_looks (pds_url, did, asked, seen, is_moved, tries, due)
SELECT r.pds_url, :did, 1, 0, :is_moved, :tries, :now FROM pds_registry AS r
WHERE r.pds_url = :url
ON CONFLICT (pds_url, did) DO UPDATE SET asked = pds_looks.asked + 1

-- name: ask_search
-- An account is to be looked at as soon as it is known where it lives.
INSERT INTO pds_looks (pds_url, did, asked, seen, is_moved, tries, due)
VALUES ('', :did, 1, 0, :is_moved, :tries, :now)
ON CONFLICT (pds_url, did) DO UPDATE SET asked = pds_looks.asked + 1

-- name: ask_rescan
-- A PDS of the registry is to be scanned.
INSERT INTO pds_rescans (pds_url, asked_at)
SELECT r.pds_url, :now FROM pds_registry AS r WHERE r.pds_url = :url
ON CONFLICT (pds_url) DO NOTHING

-- name: ask_every_rescan
-- Nobody knows which PDSes have changed: a first scan may be under way as well, and have passed it.
INSERT INTO pds_rescans (pds_url, asked_at)
SELECT r.pds_url, :now FROM pds_registry AS r WHERE TRUE
ON CONFLICT (pds_url) DO NOTHING

-- name: count_looks
-- How many accounts wait, or were looked at just now, at each PDS.
SELECT pds_url, COUNT(*) FROM pds_looks GROUP BY pds_url

-- name: count_waiting
-- What is to be done.
SELECT (SELECT COUNT(*) FROM pds_looks WHERE asked > seen), (SELECT COUNT(*) FROM pds_rescans)

-- name: drop_looks
-- Those of one PDS: it was removed, or all of it is scanned.
DELETE FROM pds_looks WHERE pds_url = :url AND pds_url <> ''

-- name: drop_rescan
-- The next scan begins a new walk, which meets what has changed; or there is no such PDS.
DELETE FROM pds_rescans WHERE pds_url = :url

-- name: drop_search
-- Nobody knows where it lives, or it is known now.
DELETE FROM pds_looks WHERE pds_url = '' AND did = :did

-- name: due_for_scope
-- It may be scanned for this scope before its time.
DELETE FROM pds_scope_scans WHERE pds_url = :url AND scope = :scope

-- name: due_looks
-- Accounts of one PDS, the longest wait first: whether there may be records of it, and whether a
-- reading of it is under way.
SELECT l.did, l.asked, l.is_moved, l.tries,
  EXISTS (SELECT 1 FROM scan_repos AS h
    WHERE h.did = l.did AND h.pds_url = l.pds_url AND h.is_held = 1),
  EXISTS (SELECT 1 FROM scan_repos AS b WHERE b.did = l.did AND b.pds_url = l.pds_url
    AND b.scope = :scope AND b.is_pending = 1 AND b.todo IS NOT NULL)
FROM pds_looks AS l WHERE l.pds_url = :url AND l.asked > l.seen AND l.due <= :now
ORDER BY l.due, l.did LIMIT :most

-- name: due_places
-- PDSes with accounts that are due, the longest wait first.
SELECT pds_url FROM pds_looks WHERE pds_url <> '' AND asked > seen AND due <= :now
GROUP BY pds_url ORDER BY MIN(due), pds_url LIMIT :most

-- name: due_searches
-- Accounts whose PDS is not known, the longest wait first.
SELECT did, asked, is_moved, tries FROM pds_looks
WHERE pds_url = '' AND asked > seen AND due <= :now
  AND CASE WHEN SUBSTR(did, 1, 8) = 'did:plc:' THEN 1 ELSE 0 END = :in_directory
ORDER BY due, did LIMIT :most

-- name: forget_pds_looks
-- Begin anew.
DELETE FROM pds_looks

-- name: forget_pds_rescans
-- Begin anew.
DELETE FROM pds_rescans

-- name: forget_pds_streams
-- Begin anew.
DELETE FROM pds_streams

-- name: forget_stream
-- The numbers of a firehose have begun anew.
DELETE FROM pds_streams WHERE host = :host

-- name: forget_seen_looks
-- Those that were looked at long enough ago, and not asked for since.
DELETE FROM pds_looks WHERE asked <= seen AND due <= :now

-- name: grant_rescan
-- Due now, unless somebody scans it.
UPDATE pds_registry SET next_scan_at = :now, updated_at = :now
WHERE pds_url = :url AND (lease_until IS NULL OR lease_until <= :now)

-- name: homes
-- PDSes of whose copy of an account there may be records.
SELECT DISTINCT pds_url FROM scan_repos WHERE did = :did AND is_held = 1

-- name: is_met
-- Whether any listing has named an account.
SELECT 1 FROM scan_repos WHERE did = :did LIMIT 1

-- name: looks_later
-- A PDS cannot be asked now: its accounts wait.
UPDATE pds_looks SET due = :due, tries = tries + 1 WHERE pds_url = :url AND asked > seen

-- name: rescans
-- PDSes that nobody scans, that answer, and whose last whole scan is a while ago; and whether a walk
-- is under way there, which may have passed what has changed.
SELECT w.pds_url, EXISTS (SELECT 1 FROM scan_progress AS p
  WHERE p.pds_url = w.pds_url AND p.scope = :scope AND p.is_open = 1)
FROM pds_rescans AS w JOIN pds_registry AS r ON r.pds_url = w.pds_url
WHERE (r.lease_until IS NULL OR r.lease_until <= :now) AND r.consecutive_failures = 0
  AND (r.last_scan_at IS NULL OR r.last_scan_at <= :before)
ORDER BY w.asked_at, w.pds_url LIMIT :most

-- name: save_stream
-- A firehose was read up to here.
INSERT INTO pds_streams (host, seq, time, looks_back, saved_at)
VALUES (:host, :seq, :time, :looks_back, :saved_at)
ON CONFLICT (host) DO UPDATE SET seq = excluded.seq, time = excluded.time,
  looks_back = excluded.looks_back, saved_at = excluded.saved_at

-- name: search_later
-- It could not be found out where an account lives.
UPDATE pds_looks SET due = :due, tries = tries + 1 WHERE pds_url = '' AND did = :did

-- name: seen_look
-- An account was looked at, as often as it was asked for when that began; not again for a while.
UPDATE pds_looks SET seen = :asked, tries = 0, due = :due,
  is_moved = CASE WHEN asked > :asked THEN is_moved ELSE 0 END
WHERE pds_url = :url AND did = :did

-- name: streams
-- Every firehose that was read.
SELECT host, seq, time, looks_back, saved_at FROM pds_streams

-- name: sure_places
-- PDSes that answer, those with the most records first.
SELECT pds_url FROM pds_registry
WHERE last_scan_at IS NOT NULL AND consecutive_failures = 0
ORDER BY chive_record_count DESC, pds_url LIMIT :most
