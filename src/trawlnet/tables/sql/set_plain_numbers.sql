-- Whole numbers come as JSON numbers, whatever the default of the version is.
SET output_format_json_quote_64bit_integers = 0
