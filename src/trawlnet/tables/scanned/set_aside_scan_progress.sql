-- The progress of walks as it was kept before each had a scope of its own.
ALTER TABLE scan_progress RENAME TO old_scan_progress
