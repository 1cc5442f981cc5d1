-- Walks go on where they were. One whose leads were being asked for goes on without them.
INSERT INTO scan_progress (pds_url, scope, walk, is_open, is_listed, is_full, listing_cursor,
  end_cursor, pages, page_size, last_rows, by_collection, leads_at, leads_todo, leads_cursor,
  strangers, updated_at)
SELECT pds_url, scope, walk, is_open, is_listed, is_full, listing_cursor, end_cursor, pages,
  page_size, last_rows, by_collection, -1.0, '[]', '', 0, updated_at
FROM old_scan_progress
