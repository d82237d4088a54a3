-- $1 groups, $2 limits; $3 places in $1, $4 levels, $5 sinces: the scans; $6 owner, $7 hold, $8 now.
-- Columns in the order of model.message.Delivery.
--
-- Every (group, level) is an index range scan of its own, so nothing due later, buried, or of another group or
-- level is ever looked at. Rows are locked one by one as the limits ask for them, never a row too many: without
-- MATERIALIZED a plan may run the scan again for every row it updates, and claim without limit.
WITH want AS MATERIALIZED (
    SELECT w.group_name, w.quota, w.place
    FROM unnest($1::text[], $2::integer[]) WITH ORDINALITY AS w (group_name, quota, place)
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
),
taken AS MATERIALIZED (
    SELECT found.seq, found.due_at, found.scan, want.place AS want
    FROM want
    CROSS JOIN LATERAL (
        SELECT due.seq, due.due_at, scan.place AS scan
        FROM unnest($3::integer[], $4::smallint[], $5::timestamptz[])
            WITH ORDINALITY AS scan (want, level, since, place)
        CROSS JOIN LATERAL (
            SELECT d.seq, d.due_at
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
        -- epoch never goes back: it is the fence.
        epoch = d.epoch + 1,
        attempt = d.attempt + 1
    FROM taken
    WHERE d.seq = taken.seq
    RETURNING d.*, taken.due_at AS was_due_at, taken.want, taken.scan
)
SELECT
    held.seq, held.epoch, held.message_id, held.group_name, m.topic, m.payload, m.content_type, m.headers,
    held.key, m.correlation_id, m.causation_id, held.priority, held.attempt, held.deaths, held.was_due_at,
    held.scheduled_for, held.published_at,
    coalesce(m.expires_at <= coalesce($8::timestamptz, statement_timestamp()), false),
    held.cancel_asked, held.suspect, coalesce($8::timestamptz, statement_timestamp())
FROM held JOIN mainspring.message AS m ON m.id = held.message_id
ORDER BY held.want, held.scan, held.was_due_at, held.seq
