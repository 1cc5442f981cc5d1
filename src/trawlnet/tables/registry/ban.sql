-- A host or a domain that wants to be left alone.
INSERT INTO pds_bans (name, reason, banned_at) VALUES (:name, :reason, :now)
ON CONFLICT (name) DO UPDATE SET reason = excluded.reason
