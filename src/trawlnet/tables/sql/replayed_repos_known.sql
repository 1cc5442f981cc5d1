-- How many of these repositories were replayed before.
SELECT uniqExact(repo) FROM replayed_repos WHERE repo IN {repos:Array(String)}
