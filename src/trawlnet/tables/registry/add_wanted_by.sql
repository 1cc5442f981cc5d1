-- Who waits for a PDS to be free, so that nobody else claims it first.
ALTER TABLE pds_registry ADD COLUMN wanted_by TEXT
