-- Begin anew.
DELETE FROM tags
