-- When these repositories, as far as they were replayed before, had been crawled.
SELECT repo, max(time_us) FROM replayed_repos WHERE repo IN {repos:Array(String)} GROUP BY repo
