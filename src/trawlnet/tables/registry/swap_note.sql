-- Write a note over the old one if nobody else has done so meanwhile.
UPDATE pds_notes SET note = :note WHERE name = :name AND note = :old
