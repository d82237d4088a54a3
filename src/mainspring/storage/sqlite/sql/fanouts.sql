-- Fan-outs: cursors and policies.

-- name: fanout_advance
-- ?1 topic, ?2 work, ?3 shard, ?4 window, ?5 now. Answers one row when the cursor was before it.
UPDATE mainspring_fanout_cursor
SET completed = ?4, completed_at = ?5, seen_at = ?5
WHERE topic = ?1
  AND work = ?2
  AND shard = ?3
  -- A cursor goes no further than what was planned, and never back: an earlier window that comes late changes nothing.
  AND planned >= ?4
  AND (completed IS NULL OR completed < ?4)
RETURNING 1

-- name: fanout_candidates
-- ?1 topic, ?2 [work, shard] pairs, ?3 when a shard was last noted as there, to be noted again, ?4 {work: group that
-- does it}, where it is known. Columns in the order of model.fanout.Candidate, its policy in three; and whether it is to be
-- noted as there. A slice is unfinished while that group has a copy of it to be handled, or nobody subscribes to it yet.
SELECT
    s.work,
    s.shard,
    coalesce(p.enabled, w.enabled),
    coalesce(p.every, w.every),
    coalesce(p.jitter, w.jitter),
    c.completed,
    c.planned,
    EXISTS (
        SELECT 1
        FROM mainspring_delivery AS d
        WHERE d.message_id = c.slice_id AND (g.value IS NULL OR d.group_name = g.value)
    )
    OR EXISTS (SELECT 1 FROM mainspring_parked AS a WHERE a.message_id = c.slice_id),
    coalesce(c.seen_at < ?3, 0)
FROM (
    SELECT json_extract(value, '$[0]') AS work, json_extract(value, '$[1]') AS shard FROM json_each(?2)
) AS s
LEFT JOIN json_each(?4) AS g ON g.key = s.work
LEFT JOIN mainspring_fanout_cursor AS c ON c.topic = ?1 AND c.work = s.work AND c.shard = s.shard
LEFT JOIN mainspring_fanout_policy AS p ON p.topic = ?1 AND p.work = s.work AND p.shard = s.shard
LEFT JOIN mainspring_fanout_policy AS w ON w.topic = ?1 AND w.work = s.work AND w.shard = ''

-- name: fanout_cursors
-- ?1 topic, ?2 work, ?3 after which shard: may be null; ?4 limit, ?5 whether only those that are behind. Columns in the
-- order of model.fanout.CursorView.
SELECT topic, work, shard, completed, completed_at, planned, planned_at
FROM mainspring_fanout_cursor
WHERE topic = ?1 AND work = ?2 AND shard > coalesce(?3, '')
  AND (NOT ?5 OR (planned IS NOT NULL AND (completed IS NULL OR completed < planned)))
ORDER BY shard
LIMIT ?4

-- name: fanout_edit
-- ?1 topic, ?2 work, ?3 shard or nothing, ?4 enabled, ?5 every, ?6 jitter: null leaves it as it is; ?7 now, ?8 by whom.
-- One row: the policy as it is set now.
INSERT INTO mainspring_fanout_policy (topic, work, shard, enabled, every, jitter, edited_at, edited_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    enabled = coalesce(excluded.enabled, enabled),
    every = coalesce(excluded.every, every),
    jitter = coalesce(excluded.jitter, jitter),
    edited_at = excluded.edited_at,
    edited_by = excluded.edited_by
RETURNING enabled, every, jitter

-- name: fanout_planned
-- A cursor never goes back.
INSERT INTO mainspring_fanout_cursor (topic, work, shard, planned, planned_at, seen_at, slice_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    planned = excluded.planned,
    planned_at = excluded.planned_at,
    seen_at = excluded.seen_at,
    slice_id = excluded.slice_id
WHERE planned IS NULL OR planned < excluded.planned

-- name: fanout_policies
-- ?1 topic, ?2 work, ?3 after which shard: may be null; ?4 limit. Columns in the order of model.fanout.PolicyView, its
-- policy in three.
SELECT topic, work, nullif(shard, ''), enabled, every, jitter, edited_at, edited_by
FROM mainspring_fanout_policy
WHERE topic = ?1 AND work = ?2 AND shard >= coalesce(?3, '') AND (?3 IS NULL OR shard > ?3)
ORDER BY shard
LIMIT ?4

-- name: fanout_reset
DELETE FROM mainspring_fanout_policy WHERE topic = ?1 AND work = ?2 AND shard = ?3 RETURNING 1

-- name: fanout_seen
-- ?1 topic, ?2 [work, shard] pairs, ?3 now. Notes that these shards are there.
UPDATE mainspring_fanout_cursor
SET seen_at = ?3
WHERE topic = ?1
  AND (work, shard) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2))

-- name: fanout_tally
-- ?1 topic, ?2 work: each may be null. Columns in the order of model.fanout.CursorTally.
SELECT
    c.topic,
    c.work,
    count(*),
    latest.planned,
    coalesce(sum(c.completed >= latest.planned), 0),
    coalesce(sum(c.planned IS NOT NULL AND (c.completed IS NULL OR c.completed < c.planned)), 0),
    min(c.completed)
FROM (
    SELECT topic, work, max(planned) AS planned
    FROM mainspring_fanout_cursor
    WHERE (?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR work = ?2)
    GROUP BY topic, work
) AS latest
JOIN mainspring_fanout_cursor AS c ON c.topic = latest.topic AND c.work = latest.work
GROUP BY c.topic, c.work
ORDER BY c.topic, c.work
