-- Claims read due rows in this order.
CREATE INDEX IF NOT EXISTS pds_registry_scan_order ON pds_registry (scan_order, pds_url)
