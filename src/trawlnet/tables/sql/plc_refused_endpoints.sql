-- How many different endpoints are not used, by why.
SELECT pds_refused, uniqExact(if(
    operation_type = 'create',
    JSONExtractString(operation_json, 'service'),
    JSONExtractString(operation_json, 'services', 'atproto_pds', 'endpoint')
))
FROM plc_operations
WHERE pds_refused != ''
GROUP BY pds_refused
ORDER BY pds_refused
