SELECT min((
    SELECT d.due_at
    FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
    WHERE d.held_by IS NULL AND d.group_name = served.value AND d.priority = level.column1 AND d.due_at > ?2
    ORDER BY d.due_at
    LIMIT 1
))
FROM json_each(?1) AS served
CROSS JOIN (VALUES (0), (1), (2), (3)) AS level
WHERE NOT EXISTS (
    SELECT 1 FROM mainspring_groups AS g WHERE g.name = served.value AND g.paused_at IS NOT NULL
)
