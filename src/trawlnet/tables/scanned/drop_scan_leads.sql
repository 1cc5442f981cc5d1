-- Leads are good for one walk: the next asks anew.
DROP TABLE scan_leads
