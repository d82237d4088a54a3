-- $1 message id, $2 group, $3 topic, $4 text of the error: each may be null; $5 limit, $6 by whom, $7 how the
-- choice is spelled, $8 channel, $9 now. One row: how many were revived.
WITH chosen AS MATERIALIZED (
    SELECT d.*
    FROM mainspring.dead AS d
    WHERE ($1::uuid IS NULL OR d.message_id = $1)
      AND ($2::text IS NULL OR d.group_name = $2)
      AND ($3::text IS NULL OR d.topic = $3)
      AND ($4::text IS NULL OR position(lower($4) IN lower(d.error)) > 0)
    ORDER BY d.seq
    LIMIT $5
    FOR UPDATE
),
unburied AS (
    DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))
),
revived AS (
    INSERT INTO mainspring.delivery (
        seq, message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual, epoch
    )
    SELECT
        seq, message_id, group_name, priority, coalesce($9::timestamptz, statement_timestamp()), scheduled_for,
        published_at, key, schedule, manual,
        -- epoch never goes back: it is the fence (invariant 2). A revival opens a new one, as a claim does.
        epoch + 1
    FROM chosen
    ORDER BY seq
    RETURNING group_name
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT coalesce($9::timestamptz, statement_timestamp()), $6, 'revive', $7, count(*) || ' revived'
    FROM chosen
    HAVING count(*) > 0
),
rung AS MATERIALIZED (
    SELECT count(pg_notify($8, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($9::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT revived.group_name FROM revived)
)
SELECT (SELECT count(*) FROM chosen)
FROM rung
