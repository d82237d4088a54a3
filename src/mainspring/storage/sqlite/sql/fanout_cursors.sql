-- ?1 topic, ?2 work, ?3 after which shard: may be null; ?4 limit, ?5 whether only those that are behind. Columns in the
-- order of model.fanout.CursorView.
SELECT topic, work, shard, completed, completed_at, planned, planned_at
FROM mainspring_fanout_cursor
WHERE topic = ?1 AND work = ?2 AND shard > coalesce(?3, '')
  AND (NOT ?5 OR (planned IS NOT NULL AND (completed IS NULL OR completed < planned)))
ORDER BY shard
LIMIT ?4
