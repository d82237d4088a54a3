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
