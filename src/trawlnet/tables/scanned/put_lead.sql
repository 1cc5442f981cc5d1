-- One repo that has a collection.
INSERT INTO scan_leads (pds_url, scope, did, collection)
VALUES (:pds_url, :scope, :did, :collection)
ON CONFLICT DO NOTHING
