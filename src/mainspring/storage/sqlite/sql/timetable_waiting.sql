-- ?1 app whose schedules are meant, or ?2 schedules; ?3 schedules of which none need wait, ?4 since when a group must have been
-- served. The deliveries that need not wait: those of ?3, and the ones of the oldest waiting message of every schedule that
-- has nothing unfinished.
WITH oldest AS MATERIALIZED (
    SELECT d.schedule, min(d.seq) AS seq
    FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting
    WHERE d.schedule IS NOT NULL AND d.due_at = 253402214400000000
      AND (
        d.schedule IN (SELECT value FROM json_each(?2))
        -- What is left of a schedule that is gone, is for everybody.
        OR coalesce((SELECT s.app FROM mainspring_schedule AS s WHERE s.name = d.schedule), ?1) = ?1
      )
    GROUP BY d.schedule
)
SELECT d.seq
FROM oldest
CROSS JOIN mainspring_delivery AS first ON first.seq = oldest.seq
CROSS JOIN mainspring_delivery AS d ON d.message_id = first.message_id AND d.due_at = 253402214400000000
WHERE NOT EXISTS (
        SELECT 1
        FROM (
            SELECT f.message_id, f.group_name, f.epoch
            FROM mainspring_delivery AS f INDEXED BY mainspring_delivery_schedule
            WHERE f.schedule = oldest.schedule AND f.due_at <> 253402214400000000
            ORDER BY f.seq DESC
            LIMIT 100
        ) AS e
        -- As in timetable_due.sql.
        WHERE e.epoch > 0
           OR EXISTS (
                SELECT 1
                FROM mainspring_groups AS g
                WHERE g.name = e.group_name AND coalesce(g.served_at, g.declared_at) > ?4
            )
           OR (SELECT m.copies FROM mainspring_message AS m WHERE m.id = e.message_id)
              = (SELECT count(*) FROM mainspring_delivery AS c WHERE c.message_id = e.message_id AND c.epoch = 0)
    )
UNION
SELECT d.seq
FROM json_each(?3) AS free
CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting ON d.schedule = free.value
WHERE d.due_at = 253402214400000000 AND d.schedule IS NOT NULL
ORDER BY 1
