-- Be the only program that changes a schema here, until the transaction ends. Not a lock of the
-- table: two programs that both make that table would already be in each other's way.
SELECT pg_advisory_xact_lock(hashtext('trawlnet schema versions'))
