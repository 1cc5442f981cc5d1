-- Whoever wants to be left alone.
SELECT name, reason, banned_at FROM pds_bans ORDER BY name
