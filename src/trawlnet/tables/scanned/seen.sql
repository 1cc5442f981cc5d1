-- The reading that saw a record last.
SELECT scan FROM eprints WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM reviews WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM endorsements WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM tags WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM records WHERE uri = :uri AND pds_url = :pds_url
UNION ALL
SELECT scan FROM invalid_records WHERE uri = :uri AND pds_url = :pds_url
