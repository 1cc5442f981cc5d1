-- What the readings before this one saw in a collection of a repo, and this one did not.
UPDATE records SET deleted_at = :now
WHERE pds_url = :pds_url AND did = :did AND collection = :collection AND scan < :scan
  AND deleted_at IS NULL
