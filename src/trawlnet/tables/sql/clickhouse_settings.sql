-- name: set_final
-- Somebody's own query sees each row once, also before repeats are merged away.
SET final = 1

-- name: set_plain_numbers
-- Whole numbers come as JSON numbers, whatever the default of the version is.
SET output_format_json_quote_64bit_integers = 0

-- name: set_readonly
-- From here on questions only, about these tables; and no way back in this session.
SET readonly = 1
