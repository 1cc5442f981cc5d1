-- Forget all rows of replayed_repos.
TRUNCATE TABLE replayed_repos
