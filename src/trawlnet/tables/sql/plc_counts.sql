-- How much of the directory is here.
SELECT
    (SELECT count() FROM plc_operations FINAL),
    (SELECT countIf(nullified = 1) FROM plc_operations FINAL),
    count(), countIf(tombstoned = 1), countIf(pds != ''), uniqExactIf(pds, pds != '')
FROM plc_did_state FINAL
