-- Somebody's own query sees each row once, also before repeats are merged away.
SET final = 1
