-- $1 topic, $2 work, $3 after which shard: may be null; $4 limit. Columns in the order of model.fanout.PolicyView, its
-- policy in three.
SELECT p.topic, p.work, nullif(p.shard, ''), p.enabled, p.every, p.jitter, p.edited_at, p.edited_by
FROM mainspring.fanout_policy AS p
WHERE p.topic = $1 AND p.work = $2 AND p.shard >= coalesce($3::text, '') AND ($3::text IS NULL OR p.shard > $3)
ORDER BY p.shard
LIMIT $4
