-- Every activity hash that was seen or is known. One that this program does not know is kept too,
-- flagged: on the first day of a new raid nobody knows its hashes.
CREATE TABLE activity_hash
(
    hash BIGINT PRIMARY KEY,
    activity TEXT,
    version TEXT,
    known BOOLEAN NOT NULL
)
