-- Write a note if there is none of that name.
INSERT INTO pds_notes (name, note) VALUES (:name, :note)
ON CONFLICT (name) DO NOTHING
