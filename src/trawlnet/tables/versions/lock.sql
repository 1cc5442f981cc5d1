-- A transaction of SQLite is alone from its beginning.
SELECT 1
