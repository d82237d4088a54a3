-- $1 topic, $2 work, $3 shard or nothing, $4 enabled, $5 every, $6 jitter: null leaves it as it is; $7 by whom, $8 action,
-- $9 subject, $10 detail, $11 now. One row: the policy as it is set now.
WITH clock AS MATERIALIZED (
    SELECT coalesce($11::timestamptz, statement_timestamp()) AS now
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT clock.now, $7, $8, $9, $10
    FROM clock
)
INSERT INTO mainspring.fanout_policy AS p (topic, work, shard, enabled, every, jitter, edited_at, edited_by)
SELECT $1, $2, $3, $4, $5, $6, clock.now, $7
FROM clock
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    enabled = coalesce(excluded.enabled, p.enabled),
    every = coalesce(excluded.every, p.every),
    jitter = coalesce(excluded.jitter, p.jitter),
    edited_at = excluded.edited_at,
    edited_by = excluded.edited_by
RETURNING p.enabled, p.every, p.jitter
