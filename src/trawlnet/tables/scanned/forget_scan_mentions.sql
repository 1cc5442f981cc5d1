-- Everything.
DELETE FROM scan_mentions
