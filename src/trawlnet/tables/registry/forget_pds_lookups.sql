-- Begin anew.
DELETE FROM pds_lookups
