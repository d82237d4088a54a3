-- $1 topic, $2 works, $3 shards, both in rising order. Locks the cursors that are there, until the transaction ends, and answers
-- (work, shard) of those that another session has locked: a handler's transaction may, for as long as it likes.
WITH named AS MATERIALIZED (
    SELECT s.work, s.shard
    FROM unnest($2::text[], $3::text[]) AS s (work, shard)
),
free AS MATERIALIZED (
    SELECT c.work, c.shard
    FROM named
    CROSS JOIN LATERAL (
        SELECT work, shard
        FROM mainspring.fanout_cursor
        WHERE topic = $1 AND work = named.work AND shard = named.shard
        FOR UPDATE SKIP LOCKED
    ) AS c
)
SELECT c.work, c.shard
FROM named
CROSS JOIN LATERAL (
    SELECT work, shard
    FROM mainspring.fanout_cursor
    WHERE topic = $1 AND work = named.work AND shard = named.shard
    LIMIT 1
) AS c
WHERE (named.work, named.shard) NOT IN (SELECT free.work, free.shard FROM free)
