-- Begin anew.
DELETE FROM records
