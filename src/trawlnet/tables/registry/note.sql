-- A note by its name.
SELECT note FROM pds_notes WHERE name = :name
