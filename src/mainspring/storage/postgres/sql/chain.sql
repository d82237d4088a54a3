-- $1 message id, $2 limit, $3 now. Rows of (whether it is a cause, how far away, and the columns of model.browsing.Link), on
-- either side up to one more than the limit. Who names itself as a cause, by whatever detour, is met once.
WITH RECURSIVE cause (id, causation_id, distance, path) AS (
    SELECT m.id, m.causation_id, 0, ARRAY[m.id] FROM mainspring.message AS m WHERE m.id = $1
    UNION ALL
    SELECT m.id, m.causation_id, cause.distance + 1, cause.path || m.id
    FROM cause
    CROSS JOIN LATERAL (
        SELECT id, causation_id FROM mainspring.message WHERE id = cause.causation_id OFFSET 0
    ) AS m
    WHERE m.id <> ALL (cause.path)
),
caused (id, distance, path) AS (
    SELECT m.id, 0, ARRAY[m.id] FROM mainspring.message AS m WHERE m.id = $1
    UNION ALL
    SELECT m.id, caused.distance + 1, caused.path || m.id
    FROM caused
    CROSS JOIN LATERAL (SELECT id FROM mainspring.message WHERE causation_id = caused.id OFFSET 0) AS m
    WHERE m.id <> ALL (caused.path)
),
-- The message itself comes first on both sides.
linked AS MATERIALIZED (
    (SELECT true AS is_cause, cause.id, cause.distance FROM cause LIMIT $2 + 2)
    UNION ALL
    (SELECT false, caused.id, caused.distance FROM caused LIMIT $2 + 2)
)
SELECT
    linked.is_cause, linked.distance, m.id, m.topic, m.key, m.causation_id, m.published_at,
    coalesce(
        (SELECT 'dead' FROM mainspring.dead AS d WHERE d.message_id = m.id LIMIT 1),
        (
            SELECT
                CASE
                    WHEN d.held_by IS NOT NULL AND d.due_at > coalesce($3::timestamptz, statement_timestamp()) THEN 'running'
                    WHEN d.held_by IS NOT NULL THEN 'lapsed'
                    WHEN d.due_at <= coalesce($3::timestamptz, statement_timestamp()) THEN 'ready'
                    ELSE 'scheduled'
                END
            FROM mainspring.delivery AS d
            WHERE d.message_id = m.id
            ORDER BY d.held_by IS NULL, d.due_at
            LIMIT 1
        ),
        (SELECT 'parked' FROM mainspring.parked AS p WHERE p.message_id = m.id),
        (
            SELECT r.status
            FROM mainspring.run AS r
            WHERE r.message_id = m.id AND r.status IN ('done', 'cancelled')
            ORDER BY r.status
            LIMIT 1
        )
    )
FROM linked
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = linked.id OFFSET 0) AS m
WHERE linked.distance > 0
ORDER BY linked.is_cause, linked.distance, m.published_at, m.id
