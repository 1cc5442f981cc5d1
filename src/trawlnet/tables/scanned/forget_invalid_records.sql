-- Begin anew.
DELETE FROM invalid_records
