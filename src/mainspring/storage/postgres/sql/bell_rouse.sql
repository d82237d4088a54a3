-- $1 channel, $2 now. Only for who sleeps on something due: each level is a look into the claim's own index, so that a
-- million rows of later do not make it slow.
SELECT count(pg_notify($1, asleep.group_name))
FROM (
    SELECT DISTINCT bell.group_name
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($2::timestamptz, statement_timestamp())
) AS asleep
WHERE EXISTS (
    SELECT
    FROM unnest('{0,1,2,3}'::smallint[]) AS level (priority)
    WHERE EXISTS (
        SELECT
        FROM mainspring.delivery AS d
        WHERE d.group_name = asleep.group_name
          AND d.priority = level.priority
          AND d.held_by IS NULL
          AND d.due_at <= coalesce($2::timestamptz, statement_timestamp())
    )
)
