-- Write a note over the old one.
INSERT INTO pds_notes (name, note) VALUES (:name, :note)
ON CONFLICT (name) DO UPDATE SET note = excluded.note
