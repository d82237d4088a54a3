-- ?1 message id, ?2 limit, ?3 now. Rows of (whether it is a cause, how far away, and the columns of model.browsing.Link), on
-- either side up to one more than the limit. Who names itself as a cause, by whatever detour, is met once.
WITH RECURSIVE
cause(id, causation_id, distance, path) AS (
    SELECT id, causation_id, 0, hex(id) FROM mainspring_message WHERE id = ?1
    UNION ALL
    SELECT m.id, m.causation_id, cause.distance + 1, cause.path || ' ' || hex(m.id)
    FROM cause
    CROSS JOIN mainspring_message AS m ON m.id = cause.causation_id
    WHERE instr(cause.path, hex(m.id)) = 0
    -- The message itself comes first on both sides.
    LIMIT ?2 + 2
),
caused(id, distance, path) AS (
    SELECT id, 0, hex(id) FROM mainspring_message WHERE id = ?1
    UNION ALL
    SELECT m.id, caused.distance + 1, caused.path || ' ' || hex(m.id)
    FROM caused
    -- IN, lest who has run ANALYZE has the whole index read, to make a filter of it.
    CROSS JOIN mainspring_message AS m INDEXED BY mainspring_message_causation ON m.causation_id IN (caused.id, x'')
    WHERE m.causation_id IS NOT NULL AND instr(caused.path, hex(m.id)) = 0
    LIMIT ?2 + 2
),
linked(is_cause, id, distance) AS (
    SELECT 1, id, distance FROM cause WHERE distance > 0
    UNION ALL
    SELECT 0, id, distance FROM caused WHERE distance > 0
)
SELECT linked.is_cause, linked.distance, m.id, m.topic, m.key, m.causation_id, m.published_at,
       coalesce(
           (SELECT 'dead' FROM mainspring_dead AS d WHERE d.message_id = m.id LIMIT 1),
           (
               SELECT CASE
                          WHEN d.held_by IS NOT NULL AND d.due_at > ?3 THEN 'running'
                          WHEN d.held_by IS NOT NULL THEN 'lapsed'
                          WHEN d.due_at <= ?3 THEN 'ready'
                          ELSE 'scheduled'
                      END
               FROM mainspring_delivery AS d
               WHERE d.message_id = m.id
               ORDER BY d.held_by IS NULL, d.due_at
               LIMIT 1
           ),
           (SELECT 'parked' FROM mainspring_parked AS p WHERE p.message_id = m.id),
           (
               SELECT r.status
               FROM mainspring_run AS r INDEXED BY mainspring_run_message
               WHERE r.message_id = m.id AND r.status IN ('done', 'cancelled')
               ORDER BY r.status
               LIMIT 1
           )
       )
FROM linked
CROSS JOIN mainspring_message AS m ON m.id = linked.id
ORDER BY linked.is_cause, linked.distance, m.published_at, m.id
