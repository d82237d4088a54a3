-- $1 schedules, $2 reason, $3 whether what has begun too, $4 whether what somebody asked for by hand too, $5 whether what is
-- parked too, $6 channel, $7 now. However many there are. One row: how many runs were asked to stop, whether a parked message
-- got away to its groups while we waited for it, so that only a fresh look finds it, and the schedules that were left alone.
WITH seen AS MATERIALIZED (
    SELECT d.seq, d.schedule
    FROM mainspring.delivery AS d
    WHERE d.schedule = ANY ($1::text[])
      AND ($3::boolean OR d.epoch = 0)
      AND ($4::boolean OR NOT d.manual)
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
),
-- In the order of their seq, as everybody locks who locks several. Under the lock it is asked once more: what a worker has
-- taken by then has begun. Who pauses or deletes waits for what others have locked.
waited_for AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (
        SELECT
            seq, message_id, group_name, attempt, held_by, cancel_asked, scheduled_for, published_at, schedule, manual,
            join_id
        FROM mainspring.delivery
        WHERE seq = seen.seq AND NOT $3::boolean AND epoch = 0
        FOR UPDATE
    ) AS d
),
-- Where an occurrence replaces another it is not waited for: all schedules of the app would (invariant 28).
at_once AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (
        SELECT
            seq, message_id, group_name, attempt, held_by, cancel_asked, scheduled_for, published_at, schedule, manual,
            join_id
        FROM mainspring.delivery
        WHERE seq = seen.seq AND $3::boolean
        FOR UPDATE SKIP LOCKED
    ) AS d
),
-- All of a schedule or nothing: it goes on when the row is free again.
busy AS MATERIALIZED (
    SELECT DISTINCT seen.schedule
    FROM seen
    WHERE $3::boolean AND seen.seq NOT IN (SELECT at_once.seq FROM at_once)
),
live AS MATERIALIZED (
    SELECT waited_for.* FROM waited_for
    UNION ALL
    SELECT at_once.* FROM at_once WHERE at_once.schedule NOT IN (SELECT busy.schedule FROM busy)
),
-- Read from end to end: parked messages are few, and schedules are not often paused.
unrouted AS MATERIALIZED (
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE $5::boolean
      AND p.schedule = ANY ($1::text[])
      AND ($4::boolean OR NOT p.manual)
    ORDER BY p.seq + 0
),
parked AS MATERIALIZED (
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
    WHERE seq = ANY (ARRAY(SELECT parked.seq FROM parked))
),
asked AS (
    UPDATE mainspring.delivery
    SET cancel_asked = true
    WHERE seq = ANY (ARRAY(SELECT live.seq FROM live WHERE live.held_by IS NOT NULL AND NOT live.cancel_asked))
),
over AS MATERIALIZED (
    SELECT seq, message_id, group_name, attempt, scheduled_for, schedule, manual
    FROM live
    WHERE held_by IS NULL
    UNION ALL
    SELECT seq, message_id, '', 0, scheduled_for, schedule, manual
    FROM parked
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
    )
    SELECT
        over.message_id, over.group_name, m.topic, over.attempt, 'cancelled',
        coalesce($7::timestamptz, statement_timestamp()), coalesce($7::timestamptz, statement_timestamp()), $2,
        over.schedule, CASE WHEN over.manual THEN 'manual' ELSE 'schedule' END, over.scheduled_for
    FROM over
    JOIN mainspring.message AS m ON m.id = over.message_id
    ORDER BY over.seq
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
)
SELECT
    (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL),
    (SELECT count(*) FROM unrouted) > (SELECT count(*) FROM parked),
    ARRAY(SELECT busy.schedule FROM busy)
-- rung is named here because nothing else would have it run.
FROM rung
