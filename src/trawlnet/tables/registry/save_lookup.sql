-- Remember where a DID lives.
INSERT INTO pds_lookups (did, pds_url, reason, asked_at) VALUES (:did, :url, :reason, :asked_at)
ON CONFLICT (did) DO UPDATE
SET pds_url = excluded.pds_url, reason = excluded.reason, asked_at = excluded.asked_at
