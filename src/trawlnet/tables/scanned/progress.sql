-- How far the walk over one PDS has come.
SELECT walk, is_open, is_listed, is_full, listing_cursor, end_cursor, pages, page_size,
  last_rows, by_collection, leads_at, leads_todo, leads_cursor, strangers
FROM scan_progress WHERE pds_url = :pds_url AND scope = :scope
