-- Repos with records, whatever they were read for, that this whole walk did not meet, or met
-- switched off.
SELECT DISTINCT h.did FROM scan_repos AS h
WHERE h.pds_url = :pds_url AND h.is_held = 1 AND NOT EXISTS (
  SELECT 1 FROM scan_repos AS m
  WHERE m.pds_url = :pds_url AND m.scope = :scope AND m.did = h.did AND m.walk >= :walk
    AND m.is_active = 1
)
