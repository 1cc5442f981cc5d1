-- Hosts and domains that are neither registered nor asked.
CREATE TABLE pds_bans (
  name TEXT PRIMARY KEY,
  reason TEXT NOT NULL,
  banned_at TIMESTAMPTZ NOT NULL
)
