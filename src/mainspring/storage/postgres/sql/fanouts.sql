-- Fan-out.

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
-- recorded as seen, to be noted again, $6 now.
-- Columns in the order of model.fanout.Candidate, its policy in three; and whether it is to be recorded as seen.
-- A slice is unfinished while that group has a copy of it to be handled, or no group subscribes to it yet.
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
    c.seen_at < NOW($6) - $5::interval IS TRUE
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

-- name: fanout_edit
-- $1 topic, $2 work, $3 shard or nothing, $4 enabled, $5 every, $6 jitter: null leaves it as it is; $7 by whom, $8 action,
-- $9 subject, $10 detail, $11 now. One row: the policy as it is set now.
WITH clock AS MATERIALIZED (
    SELECT NOW($11) AS now
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
CROSS JOIN (SELECT NOW($6) AS now) AS clock
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    planned = excluded.planned,
    planned_at = excluded.planned_at,
    seen_at = excluded.seen_at,
    slice_id = excluded.slice_id
-- A cursor never goes back (invariant 18).
WHERE c.planned IS NULL OR c.planned < excluded.planned

-- name: fanout_reset
-- $1 topic, $2 work, $3 shard or nothing, $4 by whom, $5 action, $6 subject, $7 detail, $8 now. One row when there was one.
WITH removed AS (
    DELETE FROM mainspring.fanout_policy
    WHERE topic = $1 AND work = $2 AND shard = $3
    RETURNING shard
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT NOW($8), $4, $5, $6, $7
FROM removed
RETURNING id

-- name: fanout_seen
-- $1 topic, $2 works, $3 shards, both in rising order, $4 now. Notes that these shards are there. (Inserted, though they are
-- there, because that looks each of them up by its key.)
INSERT INTO mainspring.fanout_cursor (topic, work, shard, seen_at)
SELECT $1, s.work, s.shard, NOW($4)
FROM unnest($2::text[], $3::text[]) AS s (work, shard)
ON CONFLICT (topic, work, shard) DO UPDATE SET seen_at = excluded.seen_at
