-- Waking idle workers.

-- name: bell_arm
-- $1 groups, $2 whose ear, $3 for how long, $4 now. A row per ear: one worker that wakes must not silence the bell
-- of another that sleeps on. One that another session has locked is left as it is: without it the worker looks by itself.
WITH free AS MATERIALIZED (
    SELECT b.group_name
    FROM mainspring.bell AS b
    WHERE b.group_name = ANY ($1::text[]) AND b.ear = $2
    ORDER BY b.group_name
    FOR UPDATE SKIP LOCKED
)
INSERT INTO mainspring.bell (group_name, ear, armed_until)
SELECT g.name, $2, coalesce($4::timestamptz, statement_timestamp()) + $3::interval
FROM unnest($1::text[]) AS g (name)
WHERE g.name IN (SELECT free.group_name FROM free)
   OR NOT EXISTS (SELECT FROM mainspring.bell AS b WHERE b.group_name = g.name AND b.ear = $2)
ORDER BY g.name
ON CONFLICT (group_name, ear) DO UPDATE SET armed_until = excluded.armed_until

-- name: bell_disarm
-- $1 groups, $2 whose ear, $3 now. Rows stay: the next arming rewrites them in place. One that another session has locked rings on.
WITH armed AS MATERIALIZED (
    SELECT b.group_name
    FROM mainspring.bell AS b
    WHERE b.group_name = ANY ($1::text[]) AND b.ear = $2 AND b.armed_until > coalesce($3::timestamptz, statement_timestamp())
    ORDER BY b.group_name
    FOR UPDATE SKIP LOCKED
)
UPDATE mainspring.bell
SET armed_until = coalesce($3::timestamptz, statement_timestamp())
WHERE group_name = ANY (ARRAY(SELECT armed.group_name FROM armed)) AND ear = $2

-- name: bell_ring
-- $1 channel, $2 what is said.
SELECT pg_notify($1, $2)

-- name: bell_rouse
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
