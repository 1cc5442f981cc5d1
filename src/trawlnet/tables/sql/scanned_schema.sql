-- name: create_record
-- Records of one kind, each with the columns of its table; indexed_at is NULL for those that are
-- not asked for.
CREATE TABLE IF NOT EXISTS $table (
  uri TEXT PRIMARY KEY,
  cid TEXT NOT NULL,
  did TEXT NOT NULL,
  rkey TEXT NOT NULL,
  collection TEXT NOT NULL,
  pds_url TEXT NOT NULL,
  raw_json TEXT NOT NULL,
  $typed_columns,
  indexed_at TIMESTAMPTZ,
  deleted_at TIMESTAMPTZ,
  scan BIGINT NOT NULL
)

-- name: create_scan_leads
-- Which repos have which collections, as a PDS itself says; good for one walk.
CREATE TABLE IF NOT EXISTS scan_leads (
  pds_url TEXT NOT NULL,
  did TEXT NOT NULL,
  collection TEXT NOT NULL,
  PRIMARY KEY (pds_url, did, collection)
)

-- name: create_scan_mentions
-- Accounts that indexed records name, so that their PDSes can be looked for.
CREATE TABLE scan_mentions (
  did TEXT PRIMARY KEY,
  asked_at TIMESTAMPTZ
)

-- name: create_scan_progress
-- How far the walk over each PDS has come.
CREATE TABLE IF NOT EXISTS scan_progress (
  pds_url TEXT PRIMARY KEY,
  walk BIGINT NOT NULL,
  is_open BIGINT NOT NULL,
  is_listed BIGINT NOT NULL,
  is_full BIGINT NOT NULL,
  listing_cursor TEXT NOT NULL,
  end_cursor TEXT NOT NULL,
  pages BIGINT NOT NULL,
  page_size BIGINT NOT NULL,
  last_rows BIGINT NOT NULL,
  scope TEXT NOT NULL,
  by_collection TEXT NOT NULL,
  leads_at DOUBLE PRECISION NOT NULL,
  leads_todo TEXT NOT NULL,
  leads_cursor TEXT NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL
)

-- name: create_scan_repos
-- Each repo that a PDS lists: the rev that was read, the rev that is listed, and what is left.
CREATE TABLE IF NOT EXISTS scan_repos (
  pds_url TEXT NOT NULL,
  did TEXT NOT NULL,
  rev TEXT NOT NULL,
  listed_rev TEXT NOT NULL,
  walk BIGINT NOT NULL,
  is_active BIGINT NOT NULL,
  is_pending BIGINT NOT NULL,
  is_held BIGINT NOT NULL,
  reading BIGINT NOT NULL,
  reading_rev TEXT NOT NULL,
  todo TEXT,
  todo_cursor TEXT NOT NULL,
  todo_pages BIGINT NOT NULL,
  trouble TEXT NOT NULL,
  PRIMARY KEY (pds_url, did)
)

-- name: create_scoped_leads
-- Which repos have which collections, as a PDS itself says; good for one walk.
CREATE TABLE scan_leads (
  pds_url TEXT NOT NULL,
  scope TEXT NOT NULL,
  did TEXT NOT NULL,
  collection TEXT NOT NULL,
  PRIMARY KEY (pds_url, scope, did, collection)
)

-- name: create_scoped_progress
-- How far each walk over each PDS has come. Walks for other collections are other walks.
CREATE TABLE scan_progress (
  pds_url TEXT NOT NULL,
  scope TEXT NOT NULL,
  walk BIGINT NOT NULL,
  is_open BIGINT NOT NULL,
  is_listed BIGINT NOT NULL,
  is_full BIGINT NOT NULL,
  listing_cursor TEXT NOT NULL,
  end_cursor TEXT NOT NULL,
  pages BIGINT NOT NULL,
  page_size BIGINT NOT NULL,
  last_rows BIGINT NOT NULL,
  by_collection TEXT NOT NULL,
  leads_at DOUBLE PRECISION NOT NULL,
  leads_todo TEXT NOT NULL,
  leads_cursor TEXT NOT NULL,
  strangers BIGINT NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY (pds_url, scope)
)

-- name: create_scoped_repos
-- Each repo that a PDS lists, for each scope: the rev that was read, the rev that is listed, and
-- what is left.
CREATE TABLE scan_repos (
  pds_url TEXT NOT NULL,
  scope TEXT NOT NULL,
  did TEXT NOT NULL,
  rev TEXT NOT NULL,
  listed_rev TEXT NOT NULL,
  walk BIGINT NOT NULL,
  is_active BIGINT NOT NULL,
  is_pending BIGINT NOT NULL,
  is_held BIGINT NOT NULL,
  reading BIGINT NOT NULL,
  reading_rev TEXT NOT NULL,
  todo TEXT,
  todo_cursor TEXT NOT NULL,
  todo_pages BIGINT NOT NULL,
  by_names BIGINT NOT NULL,
  is_flawed BIGINT NOT NULL,
  trouble TEXT NOT NULL,
  PRIMARY KEY (pds_url, scope, did)
)

-- name: index_record
-- What a PDS holds, and within it one repo.
CREATE INDEX IF NOT EXISTS ${table}_by_pds ON $table (pds_url, did)

-- name: index_scan_mentions
-- Those that are still to be looked up.
CREATE INDEX scan_mentions_unasked ON scan_mentions (did) WHERE asked_at IS NULL

-- name: index_scan_repos
-- What is still to be read of a PDS.
CREATE INDEX IF NOT EXISTS scan_repos_pending ON scan_repos (pds_url, did) WHERE is_pending = 1

-- name: index_scan_repos_by_did
-- One account, for whatever it was read and wherever.
CREATE INDEX scan_repos_by_did ON scan_repos (did, pds_url)

-- name: index_scoped_repos
-- What is still to be read of a PDS.
CREATE INDEX scan_repos_pending ON scan_repos (pds_url, scope, did) WHERE is_pending = 1

-- name: drop_old_scan_progress
-- Moved.
DROP TABLE old_scan_progress

-- name: drop_old_scan_repos
-- Moved.
DROP TABLE old_scan_repos

-- name: drop_scan_leads
-- Leads are good for one walk: the next asks anew.
DROP TABLE scan_leads

-- name: drop_scan_repos_pending
-- Its name is for the index of the new table.
DROP INDEX scan_repos_pending

-- name: move_scan_progress
-- Walks go on where they were. One whose leads were being asked for goes on without them.
INSERT INTO scan_progress (pds_url, scope, walk, is_open, is_listed, is_full, listing_cursor,
  end_cursor, pages, page_size, last_rows, by_collection, leads_at, leads_todo, leads_cursor,
  strangers, updated_at)
SELECT pds_url, scope, walk, is_open, is_listed, is_full, listing_cursor, end_cursor, pages,
  page_size, last_rows, by_collection, -1.0, '[]', '', 0, updated_at
FROM old_scan_progress

-- name: move_scan_repos
-- Repos keep what was read of them, under the scope of the walk that met them. A reading under way
-- begins anew: whether its collections were described or named is not known.
INSERT INTO scan_repos (pds_url, scope, did, rev, listed_rev, walk, is_active, is_pending, is_held,
  reading, reading_rev, todo, todo_cursor, todo_pages, by_names, is_flawed, trouble)
SELECT r.pds_url, COALESCE(p.scope, ''), r.did, r.rev, r.listed_rev, r.walk, r.is_active,
  r.is_pending, r.is_held, r.reading, r.reading_rev, NULL, '', 0, 0, 0, r.trouble
FROM old_scan_repos AS r LEFT JOIN old_scan_progress AS p ON p.pds_url = r.pds_url

-- name: set_aside_scan_progress
-- The progress of walks in the old format, before each had a scope of its own.
ALTER TABLE scan_progress RENAME TO old_scan_progress

-- name: set_aside_scan_repos
-- The repos of walks in the old format, before each walk had a scope of its own.
ALTER TABLE scan_repos RENAME TO old_scan_repos

-- name: rename_todo_pages
-- A reading under way counts rows: servers give pages of any size.
ALTER TABLE scan_repos RENAME COLUMN todo_pages TO todo_rows

-- name: count_todo_rows
-- Pages were counted as if they were full.
UPDATE scan_repos SET todo_rows = todo_rows * 100 WHERE todo_rows > 0
