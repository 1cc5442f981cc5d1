-- Every character of the new instances of a batch.
INSERT INTO instance_character
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance_character), CAST(:rows AS JSONB))
