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
