-- $1 messages, $2 groups: empty for what is parked; $3 by whom: null where a line of the audit is there; $4 how the choice is
-- spelled, $5 reason, $6 channel, $7 now. One row: how many will never start, and how many were asked to stop.
WITH seen AS MATERIALIZED (
    SELECT DISTINCT d.seq
    FROM unnest($1::uuid[], $2::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.delivery WHERE message_id = p.message_id AND group_name = p.group_name OFFSET 0
    ) AS d
    ORDER BY d.seq
),
-- In the order of their seq, as everybody locks who locks several.
live AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (
        SELECT
            seq, message_id, group_name, attempt, held_by, cancel_asked, scheduled_for, published_at, schedule, manual,
            join_id
        FROM mainspring.delivery
        WHERE seq = seen.seq
        FOR UPDATE
    ) AS d
),
unrouted AS MATERIALIZED (
    SELECT DISTINCT q.seq
    FROM unnest($1::uuid[], $2::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.parked WHERE message_id = p.message_id AND p.group_name = '' OFFSET 0
    ) AS q
    ORDER BY q.seq
),
waiting AS MATERIALIZED (
    SELECT p.*
    FROM unrouted
    CROSS JOIN LATERAL (
        SELECT seq, message_id, scheduled_for, published_at, schedule, manual
        FROM mainspring.parked
        WHERE seq = unrouted.seq
        FOR UPDATE
    ) AS p
),
removed AS (
    DELETE FROM mainspring.delivery
    WHERE seq = ANY (ARRAY(SELECT live.seq FROM live WHERE live.held_by IS NULL))
),
unparked AS (
    DELETE FROM mainspring.parked
    WHERE seq = ANY (ARRAY(SELECT waiting.seq FROM waiting))
),
asked AS (
    UPDATE mainspring.delivery
    SET cancel_asked = true
    WHERE seq = ANY (ARRAY(SELECT live.seq FROM live WHERE live.held_by IS NOT NULL AND NOT live.cancel_asked))
),
over AS MATERIALIZED (
    SELECT seq, message_id, group_name, attempt, scheduled_for, published_at, schedule, manual
    FROM live
    WHERE held_by IS NULL
    UNION ALL
    SELECT seq, message_id, '', 0, scheduled_for, published_at, schedule, manual
    FROM waiting
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
    )
    SELECT
        over.message_id, over.group_name, m.topic, over.attempt, 'cancelled',
        coalesce($7::timestamptz, statement_timestamp()), coalesce($7::timestamptz, statement_timestamp()), $5, over.schedule,
        CASE
            WHEN over.manual THEN 'manual'
            WHEN over.schedule IS NOT NULL THEN 'schedule'
            WHEN over.scheduled_for > over.published_at THEN 'deferred'
            ELSE 'message'
        END,
        over.scheduled_for
    FROM over
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = over.message_id OFFSET 0) AS m
    ORDER BY over.message_id, over.seq
),
joined AS (
    INSERT INTO mainspring.joint_end (join_id, done, failed)
    SELECT live.join_id, 0, count(*)
    FROM live
    WHERE live.held_by IS NULL AND live.join_id IS NOT NULL
    GROUP BY live.join_id
    RETURNING join_id
),
-- No worker has ended them, so none would look by itself before its next poll.
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($6, '')) FROM (SELECT FROM joined LIMIT 1) AS one
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($7::timestamptz, statement_timestamp()), count(DISTINCT over.message_id), false,
        array_agg(DISTINCT over.message_id)
    FROM over
    HAVING count(*) > 0
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT
        coalesce($7::timestamptz, statement_timestamp()), $3::text, 'cancel', $4,
        (SELECT count(*) FROM over) || ' cancelled, ' || (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL)
            || ' asked to stop: ' || $5::text
    WHERE $3 IS NOT NULL AND (EXISTS (SELECT FROM over) OR EXISTS (SELECT FROM live))
)
SELECT (SELECT count(*) FROM over), (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL)
-- rung is named here because nothing else would have it run.
FROM rung
