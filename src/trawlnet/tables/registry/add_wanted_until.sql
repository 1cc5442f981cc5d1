-- Until when.
ALTER TABLE pds_registry ADD COLUMN wanted_until TIMESTAMPTZ
