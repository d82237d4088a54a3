-- $1 at most, $2 before, $3 state (live, held, scheduled, ready, running, lapsed, retrying), $4 group: may be null; $5 now. One row: how
-- many there are, counted to one more than that, and their seqs: found by the indexes of what is to be had and of what is
-- held. More than a thousand groups are not asked one by one: as good as too many.
WITH RECURSIVE unheld (name, step) AS (
    (
        SELECT d.group_name, 1 FROM mainspring.delivery AS d
        WHERE $4::text IS NULL AND $3::text NOT IN ('held', 'running', 'lapsed') AND d.held_by IS NULL ORDER BY d.group_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NULL AND d.group_name > unheld.name ORDER BY d.group_name LIMIT 1
    ), unheld.step + 1
    FROM unheld
    WHERE unheld.name IS NOT NULL AND unheld.step <= 1000
),
held (name, step) AS (
    (
        SELECT d.group_name, 1 FROM mainspring.delivery AS d
        WHERE $4::text IS NULL AND $3::text IN ('held', 'running', 'lapsed', 'live') AND d.held_by IS NOT NULL ORDER BY d.group_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NOT NULL AND d.group_name > held.name ORDER BY d.group_name LIMIT 1
    ), held.step + 1
    FROM held
    WHERE held.name IS NOT NULL AND held.step <= 1000
),
named (name) AS MATERIALIZED (
    SELECT $4::text WHERE $4 IS NOT NULL
    UNION
    SELECT name FROM unheld WHERE name IS NOT NULL
    UNION
    SELECT name FROM held WHERE name IS NOT NULL
),
few AS MATERIALIZED (
    SELECT c.seq
    FROM named
    CROSS JOIN LATERAL (
        SELECT ready.seq
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL
              AND d.due_at <= coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('ready', 'retrying', 'live')
            LIMIT $1 + 1
        ) AS ready
        UNION ALL
        SELECT scheduled.seq
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL
              AND d.due_at > coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('scheduled', 'retrying', 'live')
            LIMIT $1 + 1
        ) AS scheduled
        UNION ALL
        (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL
              AND d.due_at > coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('held', 'running', 'live')
            LIMIT $1 + 1
        )
        UNION ALL
        (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL
              AND d.due_at <= coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('held', 'lapsed', 'live')
            LIMIT $1 + 1
        )
    ) AS c
    WHERE (SELECT count(*) FROM named) <= 1000
    LIMIT $1 + 1
)
SELECT
    CASE WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1 ELSE (SELECT count(*) FROM few) END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)
