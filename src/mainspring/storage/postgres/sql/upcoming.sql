-- $1 groups, $2 how far back, $3 now. One row: how long until the first of them that was not due so long ago, or null.
WITH want AS MATERIALIZED (
    SELECT w.group_name, level
    FROM unnest($1::text[]) AS w (group_name), unnest('{0,1,2,3}'::smallint[]) AS level
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
)
SELECT min(first.due_at) - coalesce($3::timestamptz, statement_timestamp())
FROM want
CROSS JOIN LATERAL (
    SELECT d.due_at
    FROM mainspring.delivery AS d
    WHERE d.group_name = want.group_name
      AND d.priority = want.level
      AND d.held_by IS NULL
      AND d.due_at > coalesce($3::timestamptz, statement_timestamp()) - $2::interval
    ORDER BY d.due_at, d.seq
    LIMIT 1
) AS first
