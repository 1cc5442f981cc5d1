-- The segments that were replayed to their end.
SELECT segment, collections, repeats FROM replayed_segments FINAL
