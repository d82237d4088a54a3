-- $1 topic, $2 work, $3 after which shard: may be null; $4 limit, $5 whether only those that are behind. Columns in the
-- order of model.fanout.CursorView.
SELECT c.topic, c.work, c.shard, c.completed, c.completed_at, c.planned, c.planned_at
FROM mainspring.fanout_cursor AS c
WHERE c.topic = $1 AND c.work = $2 AND c.shard > coalesce($3::text, '')
  AND (NOT $5::boolean OR (c.planned IS NOT NULL AND (c.completed IS NULL OR c.completed < c.planned)))
ORDER BY c.shard
LIMIT $4
