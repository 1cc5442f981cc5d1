-- All of a batch at once, in one order for all transactions; tells which were new.
INSERT INTO instance
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance), CAST(:rows AS JSONB))
ORDER BY instance_id
ON CONFLICT (instance_id) DO NOTHING
RETURNING instance_id
