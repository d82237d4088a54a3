-- $1 group, $2 seqs, $3 whether their claims have lapsed, $4 owner, $5 hold; the window and the slot of the group's rate, $6
-- and $7, and of a key's, $8 and $9, in microseconds or null; $10 now. Columns in the order of model.message.Delivery, rows in
-- the order of $2. What somebody else has taken or removed meanwhile is passed over.
WITH taken AS MATERIALIZED (
    SELECT d.*
    FROM unnest($2::bigint[]) AS chosen (seq)
    CROSS JOIN LATERAL (
        SELECT *
        FROM mainspring.delivery
        -- Not written IS NULL: that would let the planner read all that is held, or all that is not.
        WHERE seq = chosen.seq
          AND num_nulls(held_by) = CASE WHEN $3 THEN 0 ELSE 1 END
          AND due_at <= coalesce($10::timestamptz, statement_timestamp())
        FOR UPDATE SKIP LOCKED
    ) AS d
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $4,
        due_at = coalesce($10::timestamptz, statement_timestamp()) + $5::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1,
        -- Only a suspect dies. Who is reaped for the first time may be an innocent.
        deaths = d.deaths + ($3 AND d.suspect)::integer,
        suspect = d.suspect OR $3
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
counted AS (
    SELECT '' AS key, $6::bigint AS per, $7::bigint AS slot, count(*) AS claims
    FROM taken
    WHERE $6::bigint IS NOT NULL
    HAVING count(*) > 0
    UNION ALL
    SELECT taken.key, $8::bigint, $9::bigint, count(*)
    FROM taken
    WHERE $8::bigint IS NOT NULL AND taken.key IS NOT NULL
    GROUP BY taken.key
),
-- They count from the beginning of their slot for a window and a slot: whatever stretch as long as the window is looked at,
-- all that was claimed within it has counted.
spending AS (
    INSERT INTO mainspring.spent AS s (group_name, key, until, claims)
    SELECT
        $1, counted.key,
        timestamptz 'epoch' + interval '1 microsecond' * (
            (extract(epoch FROM coalesce($10::timestamptz, statement_timestamp())) * 1000000)::bigint
            / counted.slot * counted.slot + counted.slot + counted.per
        ),
        counted.claims
    FROM counted
    ON CONFLICT (group_name, key, until) DO UPDATE SET claims = s.claims + excluded.claims
),
over AS MATERIALIZED (
    SELECT key, until
    FROM mainspring.spent
    WHERE group_name = $1
      AND until <= coalesce($10::timestamptz, statement_timestamp())
      AND num_nulls($6::bigint, $8::bigint) < 2
    ORDER BY until
    LIMIT 500
    FOR UPDATE SKIP LOCKED
),
forgotten AS (
    DELETE FROM mainspring.spent
    WHERE group_name = $1 AND (key, until) IN (SELECT over.key, over.until FROM over)
)
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1,
    taken.deaths + ($3 AND taken.suspect)::integer, taken.due_at, taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= coalesce($10::timestamptz, statement_timestamp()), false),
    taken.cancel_asked, taken.suspect OR $3, coalesce($10::timestamptz, statement_timestamp()), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m
