-- $1 how long they are kept, $2 limit, $3 now. One row: how many leases were removed that nobody has held for so long.
WITH over AS MATERIALIZED (
    SELECT l.name
    FROM mainspring.lease AS l
    WHERE l.expires_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY l.expires_at, l.name
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.lease WHERE name = ANY (ARRAY(SELECT over.name FROM over)) RETURNING name
)
SELECT count(*) FROM removed
