-- How many scans ended in which hour, and how: bounded, however many scans there are.
CREATE TABLE IF NOT EXISTS pds_scan_hours (
  scan_hour TIMESTAMPTZ NOT NULL,
  result TEXT NOT NULL,
  reason TEXT NOT NULL,
  scans INTEGER NOT NULL,
  PRIMARY KEY (scan_hour, result, reason)
)
