-- The highest id that was stored, ids out of the counter's reach left out.
SELECT MAX(instance_id) FROM instance WHERE instance_id < :beyond
