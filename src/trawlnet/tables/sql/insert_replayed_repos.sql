-- The repositories of a batch.
INSERT INTO replayed_repos (repo, pds, rev, records, time_us)
