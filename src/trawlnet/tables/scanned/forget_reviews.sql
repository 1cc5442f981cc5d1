-- Begin anew.
DELETE FROM reviews
