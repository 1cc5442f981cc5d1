-- Moved.
DROP TABLE old_scan_repos
