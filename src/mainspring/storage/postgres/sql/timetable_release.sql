-- $1 channel, $2 app whose schedules are meant, or $3 schedules; $4 schedules of which none need wait, $5 for how long a
-- group that nobody serves is waited for, $6 now. One row: how many deliveries wait no longer, those of $4 and the ones of
-- the oldest waiting message of every schedule that has nothing unfinished. Under the lock a row is asked once more whether
-- it waits: somebody may have released it meanwhile.
WITH oldest AS MATERIALIZED (
    SELECT DISTINCT ON (d.schedule) d.schedule, d.message_id
    FROM mainspring.delivery AS d
    WHERE d.due_at = '9999-12-31 00:00:00+00' AND d.schedule IS NOT NULL
      AND (
        d.schedule = ANY ($3::text[])
        -- What is left of a schedule that is gone, is for everybody.
        OR coalesce((SELECT s.app FROM mainspring.schedule AS s WHERE s.name = d.schedule), $2::text) = $2::text
      )
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
        FROM (
            SELECT f.message_id, f.group_name, f.epoch
            FROM mainspring.delivery AS f
            WHERE f.schedule = oldest.schedule AND f.due_at <> '9999-12-31 00:00:00+00'
            ORDER BY f.seq DESC
            LIMIT 100
        ) AS e
        -- As in timetable_due.sql.
        WHERE e.epoch > 0
           OR EXISTS (
                SELECT
                FROM mainspring.groups AS g
                WHERE g.name = e.group_name
                  AND coalesce(g.served_at, g.declared_at)
                      > coalesce($6::timestamptz, statement_timestamp()) - $5::interval
            )
           OR (SELECT m.copies FROM mainspring.message AS m WHERE m.id = e.message_id)
              = (SELECT count(*) FROM mainspring.delivery AS c WHERE c.message_id = e.message_id AND c.epoch = 0)
    )
),
free AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.delivery AS d
    WHERE d.schedule = ANY ($4::text[]) AND d.due_at = '9999-12-31 00:00:00+00'
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
    FOR UPDATE SKIP LOCKED
),
released AS (
    UPDATE mainspring.delivery
    SET due_at = coalesce($6::timestamptz, statement_timestamp())
    WHERE seq = ANY (ARRAY(SELECT freed.seq FROM freed UNION SELECT free.seq FROM free))
    RETURNING group_name
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($1, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($6::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT released.group_name FROM released)
)
SELECT (SELECT count(*) FROM released)
FROM rung
