-- Begin anew.
DELETE FROM eprints
