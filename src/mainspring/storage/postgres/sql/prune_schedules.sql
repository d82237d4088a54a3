-- $1 how long they are kept, $2 limit, $3 now. One row: how many were removed of those made at run time that are over.
WITH over AS MATERIALIZED (
    SELECT s.name
    FROM mainspring.schedule AS s
    WHERE s.origin = 'api'
      AND s.next_at IS NULL
      AND s.paused_at IS NULL
      AND s.base_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY s.name
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.schedule WHERE name = ANY (ARRAY(SELECT over.name FROM over)) RETURNING name
)
SELECT count(*) FROM removed
