-- Those that are still to be looked up.
CREATE INDEX scan_mentions_unasked ON scan_mentions (did) WHERE asked_at IS NULL
