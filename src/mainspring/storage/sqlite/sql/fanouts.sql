-- Fan-out.

-- name: fanout_candidates
-- ?1 topic, ?2 rows of work, shard and the group that does it, where it is known; ?3 how often a shard is recorded as seen, ?4 now.
-- Columns in the order of model.fanout.Candidate, its policy in three; and whether it is to be recorded as seen. A slice
-- is unfinished while that group has a copy of it to be handled, or no group subscribes to it yet.
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
        WHERE d.message_id = c.slice_id AND (s.consumer IS NULL OR d.group_name = s.consumer)
    )
    OR EXISTS (SELECT 1 FROM mainspring_parked AS a WHERE a.message_id = c.slice_id),
    coalesce(c.seen_at < ?4 - ?3, 0)
FROM (
    SELECT CELL(e, 0) AS work, CELL(e, 1) AS shard, CELL(e, 2) AS consumer FROM json_each(?2) AS e
) AS s
LEFT JOIN mainspring_fanout_cursor AS c ON c.topic = ?1 AND c.work = s.work AND c.shard = s.shard
LEFT JOIN mainspring_fanout_policy AS p ON p.topic = ?1 AND p.work = s.work AND p.shard = s.shard
LEFT JOIN mainspring_fanout_policy AS w ON w.topic = ?1 AND w.work = s.work AND w.shard = ''

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

-- name: fanout_reset
DELETE FROM mainspring_fanout_policy WHERE topic = ?1 AND work = ?2 AND shard = ?3 RETURNING 1

-- name: fanout_seen
-- ?1 topic, ?2 [work, shard] pairs, ?3 now. Notes that these shards are there.
UPDATE mainspring_fanout_cursor
SET seen_at = ?3
WHERE topic = ?1
  AND (work, shard) IN (SELECT CELL(s, 0), CELL(s, 1) FROM json_each(?2) AS s)
