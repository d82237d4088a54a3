-- Unique publishing.

-- name: likeness_enter
-- $1 hash, $2 id of the new message, $3 scope, $4 window, $5 keep, $6 how long it is remembered, $7 now. One row: what is to
-- be done, and the earlier message. Lengths of time go by their seconds: a day has 24 hours, also where the caller's zone
-- changes its clocks.
SELECT fate, earlier
FROM mainspring.likeness_enter(
    $1::bytea, $2::uuid, $3::text, make_interval(secs => extract(epoch FROM $4::interval)::float8), $5::text,
    make_interval(secs => extract(epoch FROM $6::interval)::float8), $7::timestamptz
)

-- name: likeness_prune
-- $1 limit, $2 after how long what is still needed is looked at again, $3 now. One row: how many were removed.
SELECT mainspring.likeness_prune($1::bigint, $2::interval, $3::timestamptz)

-- name: likeness_replace
-- $1 message id, $2 reason, $3 now. Cancels its copies that have not begun. One row: how many, and whether a parked message
-- got away to its groups while we waited for it, so that only a fresh look finds it.
WITH seen AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.delivery AS d
    WHERE d.message_id = $1::uuid AND d.epoch = 0
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
),
-- In the order of their seq, as everybody locks who locks several. Under the lock it is asked once more: what a worker has
-- taken meanwhile has begun.
live AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (
        SELECT seq, message_id, group_name, attempt, scheduled_for, published_at, schedule, manual
        FROM mainspring.delivery
        WHERE seq = seen.seq AND epoch = 0
        FOR UPDATE
    ) AS d
),
unrouted AS MATERIALIZED (
    SELECT p.seq FROM mainspring.parked AS p WHERE p.message_id = $1::uuid
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
    DELETE FROM mainspring.delivery WHERE seq = ANY (ARRAY(SELECT live.seq FROM live))
),
unparked AS (
    DELETE FROM mainspring.parked WHERE seq = ANY (ARRAY(SELECT waiting.seq FROM waiting))
),
over AS MATERIALIZED (
    SELECT seq, message_id, group_name, attempt, scheduled_for, published_at, schedule, manual
    FROM live
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
        coalesce($3::timestamptz, statement_timestamp()), coalesce($3::timestamptz, statement_timestamp()), $2,
        over.schedule,
        CASE
            WHEN over.manual THEN 'manual'
            WHEN over.schedule IS NOT NULL THEN 'schedule'
            WHEN over.scheduled_for > over.published_at THEN 'deferred'
            ELSE 'message'
        END,
        over.scheduled_for
    FROM over
    JOIN mainspring.message AS m ON m.id = over.message_id
    ORDER BY over.seq
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT coalesce($3::timestamptz, statement_timestamp()), 1, false, ARRAY[$1::uuid]
    FROM over
    HAVING count(*) > 0
)
SELECT
    (SELECT count(*) FROM over),
    (SELECT count(*) FROM unrouted) > (SELECT count(*) FROM waiting)
