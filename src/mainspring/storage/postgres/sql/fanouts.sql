-- Fan-outs: cursors and policies.

-- name: fanout_advance
-- $1 topic, $2 work, $3 shard, $4 window, $5 now. Answers one row when the cursor was before it.
UPDATE mainspring.fanout_cursor AS c
SET completed = $4, completed_at = clock.now, seen_at = clock.now
FROM (SELECT coalesce($5::timestamptz, statement_timestamp()) AS now) AS clock
WHERE c.topic = $1
  AND c.work = $2
  AND c.shard = $3
  -- A cursor goes no further than what was planned, and never back: an earlier window that comes late changes nothing.
  AND c.planned >= $4
  AND (c.completed IS NULL OR c.completed < $4)
RETURNING 1

-- name: fanout_busy
-- $1 topic, $2 works, $3 shards, both in rising order. Locks the cursors that are there, until the transaction ends, and answers
-- (work, shard) of those that another session has locked: a handler's transaction may, for as long as it likes.
WITH named AS MATERIALIZED (
    SELECT s.work, s.shard
    FROM unnest($2::text[], $3::text[]) AS s (work, shard)
),
free AS MATERIALIZED (
    SELECT c.work, c.shard
    FROM named
    CROSS JOIN LATERAL (
        SELECT work, shard
        FROM mainspring.fanout_cursor
        WHERE topic = $1 AND work = named.work AND shard = named.shard
        FOR UPDATE SKIP LOCKED
    ) AS c
)
SELECT c.work, c.shard
FROM named
CROSS JOIN LATERAL (
    SELECT work, shard
    FROM mainspring.fanout_cursor
    WHERE topic = $1 AND work = named.work AND shard = named.shard
    LIMIT 1
) AS c
WHERE (named.work, named.shard) NOT IN (SELECT free.work, free.shard FROM free)

-- name: fanout_candidates
-- $1 topic, $2 works, $3 shards, $4 the groups that do them: null where it is not known; $5 how long ago a shard was last
-- noted as there, to be noted again, $6 now.
-- Columns in the order of model.fanout.Candidate, its policy in three; and whether it is to be noted as there.
-- A slice is unfinished while that group has a copy of it to be handled, or nobody subscribes to it yet.
-- LIMIT 1 has every shard looked up by its key: joined at once, all cursors of the topic would be read for each batch.
SELECT
    s.work,
    s.shard,
    coalesce(p.enabled, w.enabled),
    coalesce(p.every, w.every),
    coalesce(p.jitter, w.jitter),
    c.completed,
    c.planned,
    c.unfinished IS TRUE,
    c.seen_at < coalesce($6::timestamptz, statement_timestamp()) - $5::interval IS TRUE
FROM unnest($2::text[], $3::text[], $4::text[]) AS s (work, shard, consumer)
LEFT JOIN LATERAL (
    SELECT
        k.completed,
        k.planned,
        k.seen_at,
        coalesce(
            (
                SELECT true
                FROM mainspring.delivery AS d
                WHERE d.message_id = k.slice_id AND (s.consumer IS NULL OR d.group_name = s.consumer)
                LIMIT 1
            ),
            (SELECT true FROM mainspring.parked AS a WHERE a.message_id = k.slice_id LIMIT 1)
        ) AS unfinished
    FROM mainspring.fanout_cursor AS k
    WHERE k.topic = $1 AND k.work = s.work AND k.shard = s.shard
    LIMIT 1
) AS c ON true
LEFT JOIN LATERAL (
    SELECT f.enabled, f.every, f.jitter
    FROM mainspring.fanout_policy AS f
    WHERE f.topic = $1 AND f.work = s.work AND f.shard = s.shard
    LIMIT 1
) AS p ON true
LEFT JOIN LATERAL (
    SELECT f.enabled, f.every, f.jitter
    FROM mainspring.fanout_policy AS f
    WHERE f.topic = $1 AND f.work = s.work AND f.shard = ''
    LIMIT 1
) AS w ON true

-- name: fanout_cursors
-- $1 topic, $2 work, $3 after which shard: may be null; $4 limit, $5 whether only those that are behind. Columns in the
-- order of model.fanout.CursorView.
SELECT c.topic, c.work, c.shard, c.completed, c.completed_at, c.planned, c.planned_at
FROM mainspring.fanout_cursor AS c
WHERE c.topic = $1 AND c.work = $2 AND c.shard > coalesce($3::text, '')
  AND (NOT $5::boolean OR (c.planned IS NOT NULL AND (c.completed IS NULL OR c.completed < c.planned)))
ORDER BY c.shard
LIMIT $4

-- name: fanout_edit
-- $1 topic, $2 work, $3 shard or nothing, $4 enabled, $5 every, $6 jitter: null leaves it as it is; $7 by whom, $8 action,
-- $9 subject, $10 detail, $11 now. One row: the policy as it is set now.
WITH clock AS MATERIALIZED (
    SELECT coalesce($11::timestamptz, statement_timestamp()) AS now
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT clock.now, $7, $8, $9, $10
    FROM clock
)
INSERT INTO mainspring.fanout_policy AS p (topic, work, shard, enabled, every, jitter, edited_at, edited_by)
SELECT $1, $2, $3, $4, $5, $6, clock.now, $7
FROM clock
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    enabled = coalesce(excluded.enabled, p.enabled),
    every = coalesce(excluded.every, p.every),
    jitter = coalesce(excluded.jitter, p.jitter),
    edited_at = excluded.edited_at,
    edited_by = excluded.edited_by
RETURNING p.enabled, p.every, p.jitter

-- name: fanout_planned
-- $1 topic, $2 works, $3 shards, both in rising order, $4 ids of the slices, $5 window, $6 now.
INSERT INTO mainspring.fanout_cursor AS c (topic, work, shard, planned, planned_at, seen_at, slice_id)
SELECT $1, s.work, s.shard, $5, clock.now, clock.now, s.id
FROM unnest($2::text[], $3::text[], $4::uuid[]) AS s (work, shard, id)
CROSS JOIN (SELECT coalesce($6::timestamptz, statement_timestamp()) AS now) AS clock
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    planned = excluded.planned,
    planned_at = excluded.planned_at,
    seen_at = excluded.seen_at,
    slice_id = excluded.slice_id
-- A cursor never goes back (invariant 18).
WHERE c.planned IS NULL OR c.planned < excluded.planned

-- name: fanout_policies
-- $1 topic, $2 work, $3 after which shard: may be null; $4 limit. Columns in the order of model.fanout.PolicyView, its
-- policy in three.
SELECT p.topic, p.work, nullif(p.shard, ''), p.enabled, p.every, p.jitter, p.edited_at, p.edited_by
FROM mainspring.fanout_policy AS p
WHERE p.topic = $1 AND p.work = $2 AND p.shard >= coalesce($3::text, '') AND ($3::text IS NULL OR p.shard > $3)
ORDER BY p.shard
LIMIT $4

-- name: fanout_reset
-- $1 topic, $2 work, $3 shard or nothing, $4 by whom, $5 action, $6 subject, $7 detail, $8 now. One row when there was one.
WITH removed AS (
    DELETE FROM mainspring.fanout_policy
    WHERE topic = $1 AND work = $2 AND shard = $3
    RETURNING shard
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($8::timestamptz, statement_timestamp()), $4, $5, $6, $7
FROM removed
RETURNING id

-- name: fanout_seen
-- $1 topic, $2 works, $3 shards, both in rising order, $4 now. Notes that these shards are there. (Inserted, though they are
-- there, because that looks each of them up by its key.)
INSERT INTO mainspring.fanout_cursor (topic, work, shard, seen_at)
SELECT $1, s.work, s.shard, coalesce($4::timestamptz, statement_timestamp())
FROM unnest($2::text[], $3::text[]) AS s (work, shard)
ON CONFLICT (topic, work, shard) DO UPDATE SET seen_at = excluded.seen_at

-- name: fanout_tally
-- $1 topic, $2 work: each may be null. Columns in the order of model.fanout.CursorTally.
WITH latest AS MATERIALIZED (
    SELECT c.topic, c.work, max(c.planned) AS planned
    FROM mainspring.fanout_cursor AS c
    WHERE ($1::text IS NULL OR c.topic = $1) AND ($2::text IS NULL OR c.work = $2)
    GROUP BY c.topic, c.work
)
SELECT
    latest.topic,
    latest.work,
    count(*),
    latest.planned,
    count(*) FILTER (WHERE c.completed >= latest.planned),
    count(*) FILTER (WHERE c.planned IS NOT NULL AND (c.completed IS NULL OR c.completed < c.planned)),
    min(c.completed)
FROM latest
JOIN mainspring.fanout_cursor AS c ON c.topic = latest.topic AND c.work = latest.work
GROUP BY latest.topic, latest.work, latest.planned
ORDER BY latest.topic, latest.work
