-- Delete the rows of older versions of a repository, and those of repositories that are gone.
DELETE FROM repo_records
WHERE (repo, time_us) NOT IN (SELECT repo, time_us FROM replayed_repos FINAL)
