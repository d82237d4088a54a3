-- $1 message id, $2 group, $3 owner, $4 hold, $5 now. Columns in the order of model.message.Delivery, one row at the most.
WITH taken AS MATERIALIZED (
    SELECT *
    FROM mainspring.delivery
    -- Not written IS NULL: that would let the planner read all that is ready instead of what is named.
    WHERE message_id = $1 AND group_name = $2 AND num_nulls(held_by) = 1
    FOR UPDATE SKIP LOCKED
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $3,
        due_at = coalesce($5::timestamptz, statement_timestamp()) + $4::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
)
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1, taken.deaths, taken.due_at,
    taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= coalesce($5::timestamptz, statement_timestamp()), false),
    taken.cancel_asked, taken.suspect, coalesce($5::timestamptz, statement_timestamp()), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m
