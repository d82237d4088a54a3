-- Groups and their subscriptions.

-- name: declare_groups
-- $1 groups, $2 apps, $3 handlers, $4 options, $5 versions, $6 now.
-- What an operator set, as a pause, is not touched (invariant 13). A group of another app is left alone; who asks afterwards sees that it
-- is. What a newer version has written stays (invariant 26).
INSERT INTO mainspring.groups (name, app, handler, options, version, declared_at)
SELECT d.name, d.app, d.handler, d.options, d.version, coalesce($6::timestamptz, statement_timestamp())
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS d (name, app, handler, options, version)
ORDER BY d.name
ON CONFLICT (name) DO UPDATE
SET handler = excluded.handler, options = excluded.options, version = excluded.version
WHERE groups.app = excluded.app AND groups.version <= excluded.version

-- name: declare_kept
-- $1 groups; $2 worker, $3 its start; $4 after how long a silent one counts no more, $5 now. Answers (group, pattern): what
-- others have declared.
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, statement_timestamp()) - $4::interval AS cutoff
),
-- Only a process that was there all the time can tell that another was silent: after an outage all were.
judge AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM mainspring.declaration AS d, clock
        WHERE d.worker = $2 AND d.start_id = $3 AND $3 <> '' AND d.since <= clock.cutoff
    ) AS stands
)
SELECT DISTINCT declared.group_name, declared.pattern
FROM clock
CROSS JOIN judge
CROSS JOIN mainspring.declaration AS d
CROSS JOIN LATERAL unnest(d.groups, d.patterns) AS declared (group_name, pattern)
WHERE declared.group_name = ANY ($1::text[])
  AND (d.worker <> $2 OR d.start_id <> $3)
  AND (NOT judge.stands OR d.start_id = '' OR d.seen_at >= clock.cutoff)

-- name: declare_lock
-- $1 groups. Keeps out every process that declares the same groups until the transaction ends.
SELECT FROM mainspring.groups AS g WHERE g.name = ANY ($1::text[]) ORDER BY g.name FOR UPDATE

-- name: declare_seen
-- $1 worker, $2 its start; $3 groups, $4 patterns: what it declares; $5 after how long it was away in between, $6 now.
INSERT INTO mainspring.declaration AS d (since, seen_at, worker, start_id, groups, patterns)
SELECT clock.now, clock.now, $1, $2, $3::text[], $4::text[]
FROM (SELECT coalesce($6::timestamptz, statement_timestamp()) AS now) AS clock
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < excluded.seen_at - $5::interval THEN excluded.since ELSE d.since END,
    seen_at = excluded.seen_at,
    groups = excluded.groups,
    patterns = excluded.patterns

-- name: declare_subscribe
-- $1 patterns, $2 groups, $3 wild, $4 matchers.
INSERT INTO mainspring.subscription (pattern, group_name, wild, matcher)
SELECT w.pattern, w.group_name, w.wild, w.matcher
FROM unnest($1::text[], $2::text[], $3::boolean[], $4::text[]) AS w (pattern, group_name, wild, matcher)
ORDER BY w.pattern, w.group_name
ON CONFLICT (pattern, group_name) DO NOTHING

-- name: declare_unsubscribe
-- $1 groups, $2 patterns.
DELETE FROM mainspring.subscription AS s
USING unnest($1::text[], $2::text[]) AS w (group_name, pattern)
WHERE s.group_name = w.group_name AND s.pattern = w.pattern

-- name: declared
-- $1 groups; $2 worker, $3 its start; $4 groups, $5 patterns: what it declares; $6 how often that is written down, $7 now.
-- Answers (name, app, handler, options, version, patterns, whether it was written down lately) of the groups that are known.
WITH seen AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM mainspring.declaration AS d
        WHERE d.worker = $2
          AND d.start_id = $3
          AND d.groups = $4::text[]
          AND d.patterns = $5::text[]
          AND d.seen_at > coalesce($7::timestamptz, statement_timestamp()) - $6::interval
    ) AS lately
)
SELECT
    g.name, g.app, g.handler, g.options, g.version,
    ARRAY(SELECT s.pattern FROM mainspring.subscription AS s WHERE s.group_name = g.name ORDER BY s.pattern),
    seen.lately
FROM mainspring.groups AS g
CROSS JOIN seen
WHERE g.name = ANY ($1::text[])
