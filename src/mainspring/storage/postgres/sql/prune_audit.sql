-- $1 how long they are kept, $2 limit, $3 now. One row: how many entries were removed.
WITH over AS MATERIALIZED (
    SELECT a.id
    FROM mainspring.audit AS a
    WHERE a.at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY a.at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.audit WHERE id = ANY (ARRAY(SELECT over.id FROM over)) RETURNING id
)
SELECT count(*) FROM removed
