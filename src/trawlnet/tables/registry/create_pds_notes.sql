-- Where a discovery that is read step by step goes on.
CREATE TABLE IF NOT EXISTS pds_notes (
  name TEXT PRIMARY KEY,
  note TEXT NOT NULL
)
