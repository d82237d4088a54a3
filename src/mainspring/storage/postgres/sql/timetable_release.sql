-- $1 channel, $2 schedules of which none need wait, $3 now. One row: how many deliveries wait no longer, those and the ones of
-- the oldest waiting message of every schedule that has nothing unfinished. Under the lock a row is asked once more whether it
-- waits: somebody may have released it meanwhile.
WITH oldest AS MATERIALIZED (
    SELECT DISTINCT ON (d.schedule) d.schedule, d.message_id
    FROM mainspring.delivery AS d
    WHERE d.due_at = '9999-12-31 00:00:00+00' AND d.schedule IS NOT NULL
    ORDER BY d.schedule, d.seq
),
freed AS MATERIALIZED (
    SELECT d.seq
    FROM oldest
    CROSS JOIN LATERAL (
        SELECT seq
        FROM mainspring.delivery
        WHERE message_id = oldest.message_id AND due_at = '9999-12-31 00:00:00+00'
        ORDER BY seq
        FOR UPDATE SKIP LOCKED
    ) AS d
    WHERE NOT EXISTS (
        SELECT
        FROM mainspring.delivery AS e
        WHERE e.schedule = oldest.schedule AND e.due_at <> '9999-12-31 00:00:00+00'
    )
),
free AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.delivery AS d
    WHERE d.schedule = ANY ($2::text[]) AND d.due_at = '9999-12-31 00:00:00+00'
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
    FOR UPDATE SKIP LOCKED
),
released AS (
    UPDATE mainspring.delivery
    SET due_at = coalesce($3::timestamptz, statement_timestamp())
    WHERE seq = ANY (ARRAY(SELECT freed.seq FROM freed UNION SELECT free.seq FROM free))
    RETURNING group_name
),
rung AS MATERIALIZED (
    SELECT count(pg_notify($1, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($3::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT released.group_name FROM released)
)
SELECT (SELECT count(*) FROM released)
FROM rung
