-- Every weapon of the new instances of a batch.
INSERT INTO instance_weapon
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance_weapon), CAST(:rows AS JSONB))
