-- A PDS that is new; nothing happens if another process was faster.
INSERT INTO pds_registry (pds_url, discovered_at, discovery_source, status, scan_priority,
  scan_order, registrable_domain, account_count, is_relay_connected, updated_at)
VALUES (:url, :now, :source, 'pending', :priority, :scan_order, :domain, :accounts, :connected,
  :now)
ON CONFLICT (pds_url) DO NOTHING
