-- Begin anew.
DELETE FROM pds_notes
