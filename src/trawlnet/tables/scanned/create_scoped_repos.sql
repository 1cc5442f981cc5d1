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
