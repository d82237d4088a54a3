-- ?1 topic, ?2 work, ?3 shard, ?4 window, ?5 now. Answers one row when the cursor was before it.
INSERT INTO mainspring_fanout_cursor (topic, work, shard, completed, completed_at, seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (topic, work, shard) DO UPDATE
SET completed = excluded.completed, completed_at = excluded.completed_at, seen_at = excluded.seen_at
-- A cursor never goes back: who comes late with an earlier window changes nothing.
WHERE completed IS NULL OR completed < excluded.completed
RETURNING 1
