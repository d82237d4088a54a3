-- $1 limit, $2 now. Claims that count no more, of groups that have no rate any longer: the others see to their own.
WITH over AS MATERIALIZED (
    SELECT s.group_name, s.key, s.until
    FROM mainspring.groups AS known
    CROSS JOIN LATERAL (
        SELECT *
        FROM mainspring.spent
        WHERE group_name = known.name AND until <= coalesce($2::timestamptz, statement_timestamp())
        ORDER BY until
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS s
    LIMIT $1
)
DELETE FROM mainspring.spent
WHERE (group_name, key, until) IN (SELECT over.group_name, over.key, over.until FROM over)
