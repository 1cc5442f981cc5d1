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
