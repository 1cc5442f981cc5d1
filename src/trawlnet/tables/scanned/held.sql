-- Live records of a PDS by collection, and how many of them are indexed.
SELECT collection, SUM(records), SUM(indexed) FROM (
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM eprints
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM reviews
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM endorsements
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM tags
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM records
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM invalid_records
  WHERE pds_url = :pds_url AND deleted_at IS NULL GROUP BY collection
) AS counted GROUP BY collection
