-- The repos of walks as they were kept before each walk had a scope of its own.
ALTER TABLE scan_repos RENAME TO old_scan_repos
