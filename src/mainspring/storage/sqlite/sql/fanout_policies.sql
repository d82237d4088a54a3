-- ?1 topic, ?2 work, ?3 after which shard: may be null; ?4 limit. Columns in the order of model.fanout.PolicyView, its
-- policy in three.
SELECT topic, work, nullif(shard, ''), enabled, every, jitter, edited_at, edited_by
FROM mainspring_fanout_policy
WHERE topic = ?1 AND work = ?2 AND shard >= coalesce(?3, '') AND (?3 IS NULL OR shard > ?3)
ORDER BY shard
LIMIT ?4
