-- Remember that a segment was replayed to its end.
INSERT INTO replayed_segments (segment, collections, records, repeats, version)
SELECT {segment:String}, {collections:String}, {records:UInt64}, {repeats:UInt64}, toUnixTimestamp64Micro(now64(6))
