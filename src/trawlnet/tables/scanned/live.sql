-- Which tables have live records of a repo, of which collections.
SELECT DISTINCT 'eprints', collection FROM eprints
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'reviews', collection FROM reviews
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'endorsements', collection FROM endorsements
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'tags', collection FROM tags
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'records', collection FROM records
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
UNION ALL
SELECT DISTINCT 'invalid_records', collection FROM invalid_records
WHERE pds_url = :pds_url AND did = :did AND deleted_at IS NULL AND scan < :scan
