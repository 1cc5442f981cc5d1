-- A row of the registry as the program reads it, in the order of PdsRow's fields.
CREATE VIEW pds_entries AS
SELECT pds_url, discovered_at, discovery_source, status, last_scan_at, next_scan_at,
  has_chive_records, chive_record_count, consecutive_failures, scan_priority, last_error,
  is_relay_connected, account_count, indexed_record_count, last_try_at, last_reason,
  updated_at, lease_owner, lease_until
FROM pds_registry
