-- $1 topic, $2 work, $3 shard or nothing, $4 by whom, $5 action, $6 subject, $7 detail, $8 now. One row when there was one.
WITH removed AS (
    DELETE FROM mainspring.fanout_policy
    WHERE topic = $1 AND work = $2 AND shard = $3
    RETURNING shard
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($8::timestamptz, statement_timestamp()), $4, $5, $6, $7
FROM removed
RETURNING id
