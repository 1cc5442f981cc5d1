-- Live records of all PDSes by collection, and how many of them are indexed.
SELECT collection, SUM(records), SUM(indexed) FROM (
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM eprints
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM reviews
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM endorsements
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM tags
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM records
  WHERE deleted_at IS NULL GROUP BY collection
  UNION ALL
  SELECT collection, COUNT(*) AS records, COUNT(indexed_at) AS indexed FROM invalid_records
  WHERE deleted_at IS NULL GROUP BY collection
) AS counted GROUP BY collection
ORDER BY SUM(records) DESC, collection
LIMIT :most
