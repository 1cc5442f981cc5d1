-- Merge repeated rows away now, so that counts without FINAL are exact, too.
OPTIMIZE TABLE repo_records FINAL
