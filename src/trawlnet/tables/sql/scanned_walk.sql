-- name: count_pending
-- How many repos of a PDS are still to be read.
SELECT COUNT(*) FROM scan_repos WHERE pds_url = :pds_url AND scope = :scope AND is_pending = 1

-- name: drop_leads
-- The next walk asks anew.
DELETE FROM scan_leads WHERE pds_url = :pds_url AND scope = :scope

-- name: end_reading
-- A repo has been read to its end, or found to have nothing for us, at this rev.
UPDATE scan_repos SET rev = :rev, is_pending = 0, is_held = :is_held, todo = NULL,
  todo_cursor = '', todo_rows = 0, by_names = 0, is_flawed = 0, reading = :reading,
  trouble = :trouble
WHERE pds_url = :pds_url AND scope = :scope AND did = :did AND reading <= :reading

-- name: fence (postgresql)
-- Whether a PDS is still claimed by its scan; nobody can claim it before the transaction ends.
SELECT 1 FROM pds_registry WHERE pds_url = :pds_url AND lease_owner = :lease FOR UPDATE

-- name: fence (sqlite)
-- Whether a PDS is still claimed by its scan. The transaction has the database to itself.
SELECT 1 FROM pds_registry WHERE pds_url = :pds_url AND lease_owner = :lease

-- name: forget_scan_leads
-- Begin anew.
DELETE FROM scan_leads

-- name: forget_scan_mentions
-- Everything.
DELETE FROM scan_mentions

-- name: forget_scan_progress
-- Begin anew.
DELETE FROM scan_progress

-- name: forget_scan_repos
-- Begin anew.
DELETE FROM scan_repos

-- name: forget_vanished
-- Repos that a whole walk did not meet.
DELETE FROM scan_repos WHERE pds_url = :pds_url AND scope = :scope AND walk < :walk

-- name: latest_reading
-- The number of the last reading of a repo, whatever it was read for.
SELECT MAX(reading) FROM scan_repos WHERE did = :did AND pds_url = :pds_url

-- name: leads
-- The collections that a repo is said to have.
SELECT collection FROM scan_leads
WHERE pds_url = :pds_url AND scope = :scope AND did = :did ORDER BY collection

-- name: let_go
-- A repo whose records are withdrawn is read again when it comes back.
UPDATE scan_repos SET rev = '', is_held = 0, is_pending = 0, todo = NULL
WHERE pds_url = :pds_url AND scope = :scope AND did = :did

-- part: enter_listed
INSERT INTO scan_repos (pds_url, scope, did, rev, listed_rev, walk, is_active, is_pending, is_held,
  reading, reading_rev, todo, todo_cursor, todo_rows, by_names, is_flawed, trouble)
SELECT :pds_url, :scope, listed.did, '', listed.rev, :walk, listed.active, listed.pending, 0,
  0, '', NULL, '', 0, 0, 0, ''

-- part: or_update
WHERE true
ON CONFLICT (pds_url, scope, did) DO UPDATE SET
  listed_rev = excluded.listed_rev,
  walk = excluded.walk,
  is_active = excluded.is_active,
  trouble = '',
  todo = CASE WHEN scan_repos.is_pending = 1 AND :afresh = 0 THEN scan_repos.todo END,
  is_pending = CASE
    WHEN excluded.is_pending = 0 THEN 0
    WHEN :afresh = 0 AND scan_repos.is_pending = 0 AND scan_repos.rev <> ''
      AND scan_repos.rev = excluded.listed_rev THEN 0
    ELSE 1
  END
WHERE scan_repos.walk < excluded.walk

-- name: list_page (postgresql)
-- A page of a listing: what is new or has another rev is to be read. Counts what this walk saw first.
$enter_listed
FROM json_to_recordset(CAST(:listed AS json))
  AS listed (did text, rev text, active bigint, pending bigint)
$or_update

-- name: list_page (sqlite)
-- A page of a listing: what is new or has another rev is to be read. Counts what this walk saw first.
$enter_listed
FROM (
  SELECT json_extract(value, '$.did') AS did, json_extract(value, '$.rev') AS rev,
    json_extract(value, '$.active') AS active, json_extract(value, '$.pending') AS pending
  FROM json_each(:listed)
) AS listed
$or_update

-- name: pending
-- Repos of a PDS that are still to be read, those already begun first; with the last reading of
-- each, and whether there may be records of it, whatever it was read for.
SELECT did, listed_rev, reading, reading_rev, todo, todo_cursor, todo_rows, by_names, is_flawed,
  (SELECT MAX(o.reading) FROM scan_repos AS o WHERE o.did = r.did AND o.pds_url = r.pds_url),
  (SELECT MAX(o.is_held) FROM scan_repos AS o WHERE o.did = r.did AND o.pds_url = r.pds_url), rev
FROM scan_repos AS r WHERE pds_url = :pds_url AND scope = :scope AND is_pending = 1
ORDER BY CASE WHEN todo IS NULL THEN 1 ELSE 0 END, did LIMIT :most

-- name: progress
-- How far the walk over one PDS has come.
SELECT walk, is_open, is_listed, is_full, listing_cursor, end_cursor, pages, page_size,
  last_rows, by_collection, leads_at, leads_todo, leads_cursor, strangers
FROM scan_progress WHERE pds_url = :pds_url AND scope = :scope

-- name: put_lead
-- One repo that has a collection.
INSERT INTO scan_leads (pds_url, scope, did, collection)
VALUES (:pds_url, :scope, :did, :collection)
ON CONFLICT DO NOTHING

-- name: put_progress
-- Note how far the walk over one PDS has come.
INSERT INTO scan_progress (pds_url, scope, walk, is_open, is_listed, is_full, listing_cursor,
  end_cursor, pages, page_size, last_rows, by_collection, leads_at, leads_todo, leads_cursor,
  strangers, updated_at)
VALUES (:pds_url, :scope, :walk, :is_open, :is_listed, :is_full, :listing_cursor,
  :end_cursor, :pages, :page_size, :last_rows, :by_collection, :leads_at, :leads_todo,
  :leads_cursor, :strangers, :updated_at)
ON CONFLICT (pds_url, scope) DO UPDATE SET
  walk = excluded.walk,
  is_open = excluded.is_open,
  is_listed = excluded.is_listed,
  is_full = excluded.is_full,
  listing_cursor = excluded.listing_cursor,
  end_cursor = excluded.end_cursor,
  pages = excluded.pages,
  page_size = excluded.page_size,
  last_rows = excluded.last_rows,
  by_collection = excluded.by_collection,
  leads_at = excluded.leads_at,
  leads_todo = excluded.leads_todo,
  leads_cursor = excluded.leads_cursor,
  strangers = excluded.strangers,
  updated_at = excluded.updated_at

-- name: put_reading
-- How far the reading of a repo has come, unless a later reading has begun.
INSERT INTO scan_repos (pds_url, scope, did, rev, listed_rev, walk, is_active, is_pending, is_held,
  reading, reading_rev, todo, todo_cursor, todo_rows, by_names, is_flawed, trouble)
VALUES (:pds_url, :scope, :did, '', :reading_rev, 0, 1, 1, 1,
  :reading, :reading_rev, :todo, :todo_cursor, :todo_rows, :by_names, :is_flawed, '')
ON CONFLICT (pds_url, scope, did) DO UPDATE SET
  reading = excluded.reading,
  reading_rev = excluded.reading_rev,
  todo = excluded.todo,
  todo_cursor = excluded.todo_cursor,
  todo_rows = excluded.todo_rows,
  by_names = excluded.by_names,
  is_flawed = excluded.is_flawed,
  is_pending = 1,
  is_held = 1
WHERE scan_repos.reading <= excluded.reading

-- name: remove_leads
-- The leads of a PDS that is removed.
DELETE FROM scan_leads WHERE pds_url = :pds_url

-- name: remove_progress
-- The walks over a PDS that is removed.
DELETE FROM scan_progress WHERE pds_url = :pds_url

-- name: remove_repos
-- The repos of a PDS that is removed.
DELETE FROM scan_repos WHERE pds_url = :pds_url

-- name: repo
-- One repo of a PDS, pending or not, as it stands for one scope and for all.
SELECT MAX(CASE WHEN scope = :scope THEN rev END), MAX(reading), MAX(is_held)
FROM scan_repos WHERE did = :did AND pds_url = :pds_url

-- name: reread_elsewhere
-- Other PDSes that list an account read it again: its records may be there now. So do other scopes:
-- by their collections and lexicons, what was withdrawn may stand.
UPDATE scan_repos SET rev = '' WHERE did = :did AND (pds_url <> :pds_url OR scope <> :scope)

-- name: troubles
-- Active repos of a walk by what was wrong with them, if anything.
SELECT trouble, COUNT(*) FROM scan_repos
WHERE pds_url = :pds_url AND scope = :scope AND walk = :walk AND is_active = 1 GROUP BY trouble

-- name: vanished
-- Repos with records, whatever they were read for, that this whole walk did not meet, or met
-- switched off.
SELECT DISTINCT h.did FROM scan_repos AS h
WHERE h.pds_url = :pds_url AND h.is_held = 1 AND NOT EXISTS (
  SELECT 1 FROM scan_repos AS m
  WHERE m.pds_url = :pds_url AND m.scope = :scope AND m.did = h.did AND m.walk >= :walk
    AND m.is_active = 1
)
