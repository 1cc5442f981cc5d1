-- A step was made.
INSERT INTO schema_versions (folder, version) VALUES (:folder, :version)
