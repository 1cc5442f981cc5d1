-- One repo that has a collection.
INSERT INTO scan_leads (pds_url, did, collection) VALUES (:pds_url, :did, :collection)
ON CONFLICT DO NOTHING
