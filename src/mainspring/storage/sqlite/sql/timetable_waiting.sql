-- ?1 schedules of which none need wait. The deliveries that need not: those, and the ones of the oldest waiting message of
-- every schedule that has nothing unfinished.
WITH oldest AS MATERIALIZED (
    SELECT schedule, min(seq) AS seq
    FROM mainspring_delivery INDEXED BY mainspring_delivery_waiting
    WHERE schedule IS NOT NULL AND due_at = 253402214400000000
    GROUP BY schedule
)
SELECT d.seq
FROM oldest
CROSS JOIN mainspring_delivery AS first ON first.seq = oldest.seq
CROSS JOIN mainspring_delivery AS d ON d.message_id = first.message_id AND d.due_at = 253402214400000000
WHERE NOT EXISTS (
        SELECT 1
        FROM mainspring_delivery AS e INDEXED BY mainspring_delivery_schedule
        WHERE e.schedule = oldest.schedule AND e.due_at <> 253402214400000000
    )
UNION
SELECT d.seq
FROM json_each(?1) AS free
CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting ON d.schedule = free.value
WHERE d.due_at = 253402214400000000 AND d.schedule IS NOT NULL
ORDER BY 1
