-- Remember that a step of the schema was made.
INSERT INTO schema_version (version) SELECT {version:UInt32}
