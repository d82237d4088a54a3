-- $1 topic, $2 work, $3 shard, $4 window, $5 now. Answers one row when the cursor was before it.
INSERT INTO mainspring.fanout_cursor AS c (topic, work, shard, completed, completed_at, seen_at)
SELECT $1, $2, $3, $4, clock.now, clock.now
FROM (SELECT coalesce($5::timestamptz, statement_timestamp()) AS now) AS clock
ON CONFLICT (topic, work, shard) DO UPDATE
SET completed = excluded.completed, completed_at = excluded.completed_at, seen_at = excluded.seen_at
-- A cursor never goes back: who comes late with an earlier window changes nothing.
WHERE c.completed IS NULL OR c.completed < excluded.completed
RETURNING 1
