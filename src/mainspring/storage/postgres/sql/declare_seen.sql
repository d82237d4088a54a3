-- $1 worker, $2 its start; $3 groups, $4 patterns: what it declares; $5 after how long it was away in between, $6 now.
INSERT INTO mainspring.declaration AS d (since, seen_at, worker, start_id, groups, patterns)
SELECT clock.now, clock.now, $1, $2, $3::text[], $4::text[]
FROM (SELECT coalesce($6::timestamptz, statement_timestamp()) AS now) AS clock
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < excluded.seen_at - $5::interval THEN excluded.since ELSE d.since END,
    seen_at = excluded.seen_at,
    groups = excluded.groups,
    patterns = excluded.patterns
