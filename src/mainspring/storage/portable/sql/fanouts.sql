-- Fan-out.

-- name: fanout_advance
-- $1 topic, $2 work, $3 shard, $4 window, $5 now. Returns one row when the cursor was before it. A cursor goes no further
-- than what was planned, and never back: an earlier window that comes late changes nothing.
UPDATE mainspring.fanout_cursor
SET completed = $4, completed_at = NOW($5), seen_at = NOW($5)
WHERE topic = $1 AND work = $2 AND shard = $3 AND planned >= $4 AND (completed IS NULL OR completed < $4)
RETURNING 1

-- name: fanout_cursors
-- $1 topic, $2 work, $3 after which shard: may be null; $4 limit, $5 whether only those that are behind. Columns in the
-- order of model.fanout.CursorView.
SELECT topic, work, shard, completed, completed_at, planned, planned_at
FROM mainspring.fanout_cursor
WHERE topic = $1 AND work = $2 AND shard > coalesce($3::text, '')
  AND (NOT $5::boolean OR (planned IS NOT NULL AND (completed IS NULL OR completed < planned)))
ORDER BY shard
LIMIT $4

-- name: fanout_seek
-- $1 topic, $2 work, $3 shards, $4 window: null for the start; $5 now. Returns one row for each that was moved. Only an operator
-- moves a cursor back (invariant 18), and only here.
UPDATE mainspring.fanout_cursor
SET
    completed = $4::timestamptz,
    completed_at = CASE WHEN $4::timestamptz IS NOT NULL THEN NOW($5) END,
    planned = $4::timestamptz,
    planned_at = CASE WHEN $4::timestamptz IS NOT NULL THEN NOW($5) END,
    seen_at = NOW($5),
    slice_id = NULL
WHERE topic = $1 AND work = $2 AND shard IN (SELECT s.value FROM EACH($3::text[], s))
RETURNING 1

-- name: fanout_policies
-- $1 topic, $2 work, $3 after which shard: may be null; $4 limit. Columns in the order of model.fanout.PolicyView, its
-- policy in three.
SELECT topic, work, nullif(shard, ''), enabled, every, jitter, edited_at, edited_by
FROM mainspring.fanout_policy
WHERE topic = $1 AND work = $2 AND shard >= coalesce($3::text, '') AND ($3::text IS NULL OR shard > $3)
ORDER BY shard
LIMIT $4

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
