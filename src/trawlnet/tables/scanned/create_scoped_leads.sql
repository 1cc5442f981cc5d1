-- Which repos have which collections, as a PDS itself says; good for one walk.
CREATE TABLE scan_leads (
  pds_url TEXT NOT NULL,
  scope TEXT NOT NULL,
  did TEXT NOT NULL,
  collection TEXT NOT NULL,
  PRIMARY KEY (pds_url, scope, did, collection)
)
