-- Begin anew.
DELETE FROM scan_leads
