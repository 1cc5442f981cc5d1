-- Every player of the new instances of a batch.
INSERT INTO instance_player
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS instance_player), CAST(:rows AS JSONB))
