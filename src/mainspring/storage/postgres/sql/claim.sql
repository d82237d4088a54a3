-- $1 groups, $2 limits; $3 places in $1, $4 levels, $5 sinces: the scans; $6 owner, $7 hold, $8 now.
-- Columns in the order of model.message.Delivery, rows in the order they were taken.
--
-- Every (group, level) is an index range scan of its own, so nothing due later, buried, or of another group or
-- level is ever looked at. Rows are locked one by one as the limits ask for them, never a row too many: without
-- MATERIALIZED a plan may run the scan again for every row it updates, and claim without limit.
--
-- Tables meet by LATERAL and by ANY (ARRAY (…)), never by a plain join: these are bounded index scans whatever the
-- planner believes about sizes, and they keep the order. A join planned while the tables were empty, and kept,
-- reads all of them for every row when they are not.
WITH want AS MATERIALIZED (
    SELECT w.group_name, w.quota, w.place
    FROM unnest($1::text[], $2::integer[]) WITH ORDINALITY AS w (group_name, quota, place)
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
    ORDER BY w.place
),
taken AS MATERIALIZED (
    SELECT found.*
    FROM want
    CROSS JOIN LATERAL (
        SELECT due.*
        FROM unnest($3::integer[], $4::smallint[], $5::timestamptz[]) AS scan (want, level, since)
        CROSS JOIN LATERAL (
            SELECT d.*
            FROM mainspring.delivery AS d
            WHERE d.group_name = want.group_name
              AND d.priority = scan.level
              AND d.held_by IS NULL
              AND d.due_at >= coalesce(scan.since, '-infinity')
              AND d.due_at <= coalesce($8::timestamptz, statement_timestamp())
            ORDER BY d.due_at, d.seq
            LIMIT want.quota
            FOR UPDATE SKIP LOCKED
        ) AS due
        WHERE scan.want = want.place
        LIMIT want.quota
    ) AS found
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $6,
        due_at = coalesce($8::timestamptz, statement_timestamp()) + $7::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
)
-- The rows are ours from the lock on, so what was read under it needs only be told as it is being written.
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1, taken.deaths, taken.due_at,
    taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= coalesce($8::timestamptz, statement_timestamp()), false),
    taken.cancel_asked, taken.suspect, coalesce($8::timestamptz, statement_timestamp()), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m
