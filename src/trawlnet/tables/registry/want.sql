-- Keep others from claiming a PDS before whoever waits for it; of two who wait the first is next.
UPDATE pds_registry SET wanted_by = :owner, wanted_until = :until
WHERE pds_url = :url AND (wanted_until IS NULL OR wanted_until <= :now OR wanted_by = :owner)
