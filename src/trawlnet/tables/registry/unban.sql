-- It may be registered again.
DELETE FROM pds_bans WHERE name = :name
