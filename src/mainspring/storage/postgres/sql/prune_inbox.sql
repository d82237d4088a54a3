-- $1 how long they are kept, $2 limit, $3 now. One row: how many messages were removed. What somebody is at stays.
WITH over AS MATERIALIZED (
    SELECT i.message_id, i.source, i.group_name
    FROM mainspring.inbox AS i
    WHERE i.status <> 'processing'
      AND i.changed_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY i.changed_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.inbox AS i
    USING over
    WHERE i.message_id = over.message_id AND i.source = over.source AND i.group_name = over.group_name
    RETURNING 1
)
SELECT count(*) FROM removed
