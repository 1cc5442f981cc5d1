-- Its name is for the index of the new table.
DROP INDEX scan_repos_pending
