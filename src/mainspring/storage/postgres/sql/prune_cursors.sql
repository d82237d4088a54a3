-- $1 how long they are kept, $2 limit, $3 now. One row: how many cursors were removed whose shard nobody has named for so
-- long.
WITH over AS MATERIALIZED (
    SELECT c.topic, c.work, c.shard
    FROM mainspring.fanout_cursor AS c
    WHERE c.seen_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY c.seen_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.fanout_cursor AS c
    USING over
    WHERE c.topic = over.topic AND c.work = over.work AND c.shard = over.shard
    RETURNING 1
)
SELECT count(*) FROM removed
