-- A complete scan for one scope.
INSERT INTO pds_scope_scans (pds_url, scope, next_scan_at) VALUES (:url, :scope, :next_scan_at)
ON CONFLICT (pds_url, scope) DO UPDATE SET next_scan_at = excluded.next_scan_at
