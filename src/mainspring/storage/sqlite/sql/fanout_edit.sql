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
