-- What a relay says about a PDS.
UPDATE pds_registry
SET account_count = COALESCE(:accounts, account_count),
  is_relay_connected = COALESCE(:connected, is_relay_connected), updated_at = :now
WHERE pds_url = :url
