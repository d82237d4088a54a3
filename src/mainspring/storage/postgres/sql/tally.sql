-- $1 cap, $2 now. A row per group (name null when there is none): (now, parked, expired parked, name, scheduled, ready,
-- running, lapsed, dead, oldest ready, handled, failed).
--
-- Names are found by hopping from one to the next in an index; every count stops at the cap. So the price is that of
-- groups times cap, however many rows there are.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce($2::timestamptz, statement_timestamp()) AS now
),
unheld (name) AS (
    (SELECT d.group_name FROM mainspring.delivery AS d WHERE d.held_by IS NULL ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NULL AND d.group_name > unheld.name ORDER BY d.group_name LIMIT 1
    )
    FROM unheld
    WHERE unheld.name IS NOT NULL
),
held (name) AS (
    (SELECT d.group_name FROM mainspring.delivery AS d WHERE d.held_by IS NOT NULL ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NOT NULL AND d.group_name > held.name ORDER BY d.group_name LIMIT 1
    )
    FROM held
    WHERE held.name IS NOT NULL
),
buried (name) AS (
    (SELECT d.group_name FROM mainspring.dead AS d ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (SELECT d.group_name FROM mainspring.dead AS d WHERE d.group_name > buried.name ORDER BY d.group_name LIMIT 1)
    FROM buried
    WHERE buried.name IS NOT NULL
),
named AS MATERIALIZED (
    SELECT name FROM mainspring.groups
    UNION
    SELECT name FROM unheld WHERE name IS NOT NULL
    UNION
    SELECT name FROM held WHERE name IS NOT NULL
    UNION
    SELECT name FROM buried WHERE name IS NOT NULL
),
worked AS MATERIALIZED (
    SELECT group_name AS name, sum(handled)::bigint AS handled, sum(failed)::bigint AS failed
    FROM mainspring.tally
    GROUP BY group_name
)
SELECT
    clock.now,
    (SELECT count(*) FROM (SELECT FROM mainspring.parked LIMIT $1) AS capped),
    coalesce((SELECT c.value FROM mainspring.counter AS c WHERE c.name = 'expired_parked'), 0),
    named.name,
    (
        SELECT count(*) FROM (
            SELECT
            FROM unnest('{0,1,2,3}'::smallint[]) AS level
            CROSS JOIN LATERAL (
                SELECT FROM mainspring.delivery AS d
                WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL AND d.due_at > clock.now
                LIMIT $1
            ) AS scheduled
            LIMIT $1
        ) AS capped
    ),
    (
        SELECT count(*) FROM (
            SELECT
            FROM unnest('{0,1,2,3}'::smallint[]) AS level
            CROSS JOIN LATERAL (
                SELECT FROM mainspring.delivery AS d
                WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL AND d.due_at <= clock.now
                LIMIT $1
            ) AS ready
            LIMIT $1
        ) AS capped
    ),
    (
        SELECT count(*) FROM (
            SELECT FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL AND d.due_at > clock.now
            LIMIT $1
        ) AS capped
    ),
    (
        SELECT count(*) FROM (
            SELECT FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL AND d.due_at <= clock.now
            LIMIT $1
        ) AS capped
    ),
    (SELECT count(*) FROM (SELECT FROM mainspring.dead AS d WHERE d.group_name = named.name LIMIT $1) AS capped),
    (
        SELECT min(oldest.due_at)
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.due_at FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL AND d.due_at <= clock.now
            ORDER BY d.due_at, d.seq
            LIMIT 1
        ) AS oldest
    ),
    coalesce(worked.handled, 0),
    coalesce(worked.failed, 0)
FROM clock
LEFT JOIN named ON true
LEFT JOIN worked ON worked.name = named.name
ORDER BY named.name
