-- $1 group, $2 by whom, $3 limit, $4 channel, $5 now. Answers how many deliveries were dropped; no row: no such group.
WITH declared AS MATERIALIZED (
    SELECT g.name FROM mainspring.groups AS g WHERE g.name = $1 FOR UPDATE
),
-- First of all nothing more may come in, or the last delivery would never have gone.
unsubscribed AS (
    DELETE FROM mainspring.subscription WHERE group_name = (SELECT declared.name FROM declared)
),
-- Both indexes lead with the group; the whole table has none that does.
live AS MATERIALIZED (
    SELECT d.seq
    FROM declared CROSS JOIN LATERAL (
        (SELECT seq FROM mainspring.delivery WHERE group_name = declared.name AND held_by IS NULL LIMIT $3)
        UNION ALL
        (SELECT seq FROM mainspring.delivery WHERE group_name = declared.name AND held_by IS NOT NULL LIMIT $3)
    ) AS d
    LIMIT $3
),
taken AS MATERIALIZED (
    SELECT d.*
    FROM mainspring.delivery AS d
    WHERE d.seq = ANY (ARRAY(SELECT live.seq FROM live))
    ORDER BY d.seq
    FOR UPDATE
),
dropped AS (
    DELETE FROM mainspring.delivery WHERE seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, node, error, schedule, source,
        scheduled_for
    )
    SELECT
        taken.message_id, $1, m.topic, taken.attempt, 'cancelled', coalesce($5::timestamptz, statement_timestamp()),
        coalesce($5::timestamptz, statement_timestamp()),
        -- Its name, without the token of its start.
        regexp_replace(taken.held_by, '~[0-9a-f]{16}$', ''), 'group retired',
        taken.schedule,
        CASE
            WHEN taken.manual THEN 'manual'
            WHEN taken.schedule IS NOT NULL THEN 'schedule'
            WHEN taken.scheduled_for > taken.published_at THEN 'deferred'
            ELSE 'message'
        END,
        taken.scheduled_for
    FROM taken
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m
    ORDER BY taken.seq
),
joined AS (
    INSERT INTO mainspring.joint_end (join_id, done, failed)
    SELECT taken.join_id, 0, count(*)
    FROM taken
    WHERE taken.join_id IS NOT NULL
    GROUP BY taken.join_id
    RETURNING join_id
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($4, '')) FROM (SELECT FROM joined LIMIT 1) AS one
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT coalesce($5::timestamptz, statement_timestamp()), count(*), false, array_agg(taken.message_id)
    FROM taken
    HAVING count(*) > 0
),
forgotten AS (
    DELETE FROM mainspring.groups
    WHERE name = (SELECT declared.name FROM declared) AND NOT EXISTS (SELECT FROM live)
    RETURNING name
),
uncounted AS (
    DELETE FROM mainspring.tally WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
silenced AS (
    DELETE FROM mainspring.bell WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
unlimited AS (
    DELETE FROM mainspring.limits WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
unspent AS (
    DELETE FROM mainspring.spent WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT
        coalesce($5::timestamptz, statement_timestamp()), $2, 'retire', declared.name,
        (SELECT count(*) FROM taken) || ' dropped'
    FROM declared
)
SELECT (SELECT count(*) FROM taken), (SELECT count(*) FROM live)
-- rung is named here because nothing else would have it run.
FROM declared, rung
