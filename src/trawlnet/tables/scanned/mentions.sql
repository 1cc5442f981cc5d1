-- Accounts to be looked up: never asked for, or not for long.
SELECT did FROM scan_mentions
WHERE did > :after AND (asked_at IS NULL OR asked_at < :since)
ORDER BY did LIMIT :most
