-- $1 groups, $2 owner, $3 hold, $4 now, $5 whether also what has deaths, or has one by this; $6 seqs
-- that the owner has put aside, and that are left alone while it holds them. Columns in the order of model.message.Delivery, one row at the most.
--
-- The oldest few of every group are read without a lock, and the first that nobody else is taking is locked. Where all of these
-- are locked, and there may be more, each group is gone through for one that is not.
WITH lapsed AS MATERIALIZED (
    SELECT d.seq
    FROM unnest($1::text[]) AS w (group_name)
    CROSS JOIN LATERAL (
        SELECT seq, due_at
        FROM mainspring.delivery
        WHERE group_name = w.group_name
          AND held_by IS NOT NULL
          AND due_at <= coalesce($4::timestamptz, statement_timestamp())
          AND ($5 OR (deaths = 0 AND NOT suspect))
          AND NOT (seq = ANY ($6::bigint[]) AND held_by = $2)
        ORDER BY due_at, seq
        LIMIT 32
    ) AS d
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
    ORDER BY d.due_at, d.seq
),
taken AS MATERIALIZED (
    (
        SELECT d.*
        FROM lapsed
        CROSS JOIN LATERAL (
            SELECT *
            FROM mainspring.delivery
            -- Not written IS NOT NULL: that would let the planner read all that is held instead of what is named.
            WHERE seq = lapsed.seq
              AND num_nulls(held_by) = 0
              AND due_at <= coalesce($4::timestamptz, statement_timestamp())
              AND ($5 OR (deaths = 0 AND NOT suspect))
            FOR UPDATE SKIP LOCKED
        ) AS d
    )
    UNION ALL
    (
        SELECT d.*
        FROM unnest($1::text[]) AS w (group_name)
        CROSS JOIN LATERAL (
            SELECT *
            FROM mainspring.delivery
            WHERE group_name = w.group_name
              AND held_by IS NOT NULL
              AND due_at <= coalesce($4::timestamptz, statement_timestamp())
              AND ($5 OR (deaths = 0 AND NOT suspect))
              AND NOT (seq = ANY ($6::bigint[]) AND held_by = $2)
            ORDER BY due_at, seq
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS d
        WHERE (SELECT count(*) FROM lapsed) >= 32
          AND NOT EXISTS (
              SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
          )
    )
    LIMIT 1
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $2,
        due_at = coalesce($4::timestamptz, statement_timestamp()) + $3::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1,
        -- Only a suspect dies. Who is reaped for the first time may be an innocent.
        deaths = d.deaths + d.suspect::integer,
        suspect = true
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
)
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1,
    taken.deaths + taken.suspect::integer, taken.due_at, taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= coalesce($4::timestamptz, statement_timestamp()), false),
    taken.cancel_asked, true, coalesce($4::timestamptz, statement_timestamp()), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m
