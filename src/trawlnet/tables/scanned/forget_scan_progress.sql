-- Begin anew.
DELETE FROM scan_progress
