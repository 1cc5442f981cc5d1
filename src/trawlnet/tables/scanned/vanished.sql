-- Repos with records of ours that a whole walk did not meet, or met switched off.
SELECT did FROM scan_repos
WHERE pds_url = :pds_url AND is_held = 1 AND (walk < :walk OR is_active = 0)
