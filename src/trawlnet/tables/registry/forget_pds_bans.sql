-- Everything.
DELETE FROM pds_bans
