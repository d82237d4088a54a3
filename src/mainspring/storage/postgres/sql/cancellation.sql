-- Cancelling.

-- name: cancel
-- $1 message id, or $2 topic and $3 key; $4 reason, $5 channel, $6 now.
-- One row: how many will never start, how many were asked to stop, and whether a parked message got away to its
-- groups while we waited for it, so that only a fresh look finds it.
WITH named AS MATERIALIZED (
    SELECT id, topic FROM mainspring.message WHERE id = $1::uuid
    UNION ALL
    SELECT id, topic FROM mainspring.message WHERE topic = $2::text AND key = $3::text
),
seen AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.delivery AS d
    WHERE d.message_id = ANY (ARRAY(SELECT named.id FROM named))
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
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
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE p.message_id = ANY (ARRAY(SELECT named.id FROM named))
    ORDER BY p.seq + 0
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
        over.message_id, over.group_name, (SELECT named.topic FROM named LIMIT 1), over.attempt, 'cancelled',
        coalesce($6::timestamptz, statement_timestamp()), coalesce($6::timestamptz, statement_timestamp()), $4, over.schedule,
        CASE
            WHEN over.manual THEN 'manual'
            WHEN over.schedule IS NOT NULL THEN 'schedule'
            WHEN over.scheduled_for > over.published_at THEN 'deferred'
            ELSE 'message'
        END,
        over.scheduled_for
    FROM over
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
    SELECT count(mainspring.ring($5, '')) FROM (SELECT FROM joined LIMIT 1) AS one
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($6::timestamptz, statement_timestamp()), count(DISTINCT over.message_id), false,
        array_agg(DISTINCT over.message_id)
    FROM over
    HAVING count(*) > 0
)
SELECT
    (SELECT count(*) FROM over),
    (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL),
    (SELECT count(*) FROM unrouted) > (SELECT count(*) FROM waiting)
-- rung is named here because nothing else would have it run.
FROM rung
