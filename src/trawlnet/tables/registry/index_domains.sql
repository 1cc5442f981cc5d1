-- The budget counts the rows of one registrable domain.
CREATE INDEX IF NOT EXISTS pds_registry_domains ON pds_registry (registrable_domain)
