-- Begin anew.
DELETE FROM scan_repos
