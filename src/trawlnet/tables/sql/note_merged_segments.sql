-- Remember that repeated rows of all segments were merged away.
INSERT INTO replayed_segments (segment, collections, records, repeats, version)
SELECT segment, collections, records, 0, version + 1 FROM replayed_segments FINAL WHERE repeats > 0
