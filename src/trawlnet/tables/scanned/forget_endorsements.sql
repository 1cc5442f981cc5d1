-- Begin anew.
DELETE FROM endorsements
