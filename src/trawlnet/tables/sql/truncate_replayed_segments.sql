-- Forget all rows of replayed_segments.
TRUNCATE TABLE replayed_segments
