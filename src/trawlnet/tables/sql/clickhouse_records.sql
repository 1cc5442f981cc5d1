-- name: clear_repos
-- Accounts that went at these instants: what is there of them, and older, is deleted.
INSERT INTO repo_records (repo, collection, rkey, operation, record_json, created_at, time_us)
WITH transform(repo, {repos:Array(String)}, arrayMap(at -> toInt64(at), {instants:Array(String)}), toInt64(0)) AS gone_at
SELECT repo, collection, rkey, 'delete', '', fromUnixTimestamp64Micro(gone_at), gone_at
FROM repo_records FINAL
WHERE repo IN {repos:Array(String)} AND time_us < gone_at

-- name: collections
-- The collections that have records.
SELECT DISTINCT collection FROM repo_records

-- name: insert_replayed_repos
-- The repositories of a batch.
INSERT INTO replayed_repos (repo, pds, rev, records, time_us)

-- name: insert_repo_records
-- A batch of records.
INSERT INTO repo_records (repo, collection, rkey, operation, record_json, created_at, time_us)

-- name: merge_repo_records
-- Merge repeated rows away now, so that counts without FINAL are exact, too.
OPTIMIZE TABLE repo_records FINAL

-- name: note_merged_segments
-- Remember that repeated rows of all segments, as far as this filter has them, were merged away.
INSERT INTO replayed_segments (segment, collections, records, repeats, version)
SELECT segment, collections, records, 0, version + 1 FROM replayed_segments FINAL
WHERE repeats > 0 AND ({collections:String} IN ('', collections) OR segment IN ('tombstones', 'elsewhere'))

-- name: note_replayed_segment
-- Remember that a segment was replayed to its end.
INSERT INTO replayed_segments (segment, collections, records, repeats, version)
SELECT {segment:String}, {collections:String}, {records:UInt64}, {repeats:UInt64}, toUnixTimestamp64Micro(now64(6))

-- name: prune_repo_records
-- Delete the rows that are older than their repository's newest replay and of these collections,
-- and those of repositories that are gone. Changes that were heard of since are newer, and stay.
DELETE FROM repo_records
WHERE (repo, time_us, collection) IN
(
    SELECT old.repo, old.time_us, old.collection
    FROM repo_records AS old
    INNER JOIN
    (
        SELECT repo, max(time_us) AS replayed_at, argMax(rev, time_us) AS newest_rev
        FROM replayed_repos GROUP BY repo
    ) AS newest
    ON old.repo = newest.repo
    WHERE old.time_us < newest.replayed_at
        AND (newest.newest_rev = '' OR old.collection IN {collections:Array(String)})
)

-- name: replayed_at
-- When these repositories, as far as they were replayed before, had been crawled.
SELECT repo, max(time_us) FROM replayed_repos WHERE repo IN {repos:Array(String)} GROUP BY repo

-- name: replayed_segments
-- The segments that were replayed to their end.
SELECT segment, collections, repeats FROM replayed_segments FINAL

-- name: truncate_replayed_repos
-- Forget all rows of replayed_repos.
TRUNCATE TABLE replayed_repos

-- name: truncate_replayed_segments
-- Forget all rows of replayed_segments.
TRUNCATE TABLE replayed_segments

-- name: truncate_repo_records
-- Forget all rows of repo_records.
TRUNCATE TABLE repo_records
