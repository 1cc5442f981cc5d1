-- Begin anew.
DELETE FROM pds_registry
