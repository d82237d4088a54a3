-- $1 how long they are kept, $2 limit, $3 now, $4 topic or null. One row: how many parked messages were given up.
WITH everywhere AS MATERIALIZED (
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE $4::text IS NULL AND p.parked_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY p.parked_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
-- Written twice, since one condition for both would be answered by one index for both.
there AS MATERIALIZED (
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE p.topic = $4 AND p.parked_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY p.parked_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.parked
    WHERE seq = ANY (ARRAY(TABLE everywhere UNION ALL TABLE there))
    RETURNING seq, message_id, topic, scheduled_for, published_at, schedule, manual
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
    )
    SELECT
        removed.message_id, '', removed.topic, 0, 'cancelled', coalesce($3::timestamptz, statement_timestamp()),
        coalesce($3::timestamptz, statement_timestamp()), 'no group subscribed to its topic in time',
        removed.schedule,
        CASE
            WHEN removed.manual THEN 'manual'
            WHEN removed.schedule IS NOT NULL THEN 'schedule'
            WHEN removed.scheduled_for > removed.published_at THEN 'deferred'
            ELSE 'message'
        END,
        removed.scheduled_for
    FROM removed
    ORDER BY removed.seq
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($3::timestamptz, statement_timestamp()), count(*), false, array_agg(removed.message_id)
    FROM removed
    HAVING count(*) > 0
),
counted AS (
    INSERT INTO mainspring.counter AS c (name, value)
    SELECT 'expired_parked', count(*)
    FROM removed
    HAVING count(*) > 0
    ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value
)
SELECT count(*) FROM removed
