-- Accounts that indexed records name, so that their PDSes can be looked for.
CREATE TABLE scan_mentions (
  did TEXT PRIMARY KEY,
  asked_at TIMESTAMPTZ
)
