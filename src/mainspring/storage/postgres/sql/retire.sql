-- $1 group, $2 by whom, $3 limit, $4 now. Answers how many deliveries were dropped; no row: no such group.
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
    SELECT d.seq, d.message_id, d.attempt, d.held_by
    FROM mainspring.delivery AS d
    WHERE d.seq = ANY (ARRAY(SELECT live.seq FROM live))
    ORDER BY d.seq
    FOR UPDATE
),
dropped AS (
    DELETE FROM mainspring.delivery WHERE seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
remembered AS (
    INSERT INTO mainspring.run (message_id, group_name, topic, attempt, status, started_at, finished_at, node, error)
    SELECT
        taken.message_id, $1, m.topic, taken.attempt, 'cancelled', coalesce($4::timestamptz, statement_timestamp()),
        coalesce($4::timestamptz, statement_timestamp()), taken.held_by, 'group retired'
    FROM taken
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m
    ORDER BY taken.seq
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT coalesce($4::timestamptz, statement_timestamp()), count(*), false, array_agg(taken.message_id)
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
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT
        coalesce($4::timestamptz, statement_timestamp()), $2, 'retire', declared.name,
        (SELECT count(*) FROM taken) || ' dropped'
    FROM declared
)
SELECT (SELECT count(*) FROM taken), (SELECT count(*) FROM live)
FROM declared
