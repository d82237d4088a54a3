-- Every count stops at the cap. The levels are named, so that each is one range of the index.
SELECT
    (SELECT count(*) FROM (
        SELECT 1
        FROM (VALUES (0), (1), (2), (3)) AS level
        CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
        WHERE d.held_by IS NULL AND d.group_name = ?1 AND d.priority = level.column1 AND d.due_at > ?2
        LIMIT ?3
    )),
    (SELECT count(*) FROM (
        SELECT 1
        FROM (VALUES (0), (1), (2), (3)) AS level
        CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
        WHERE d.held_by IS NULL AND d.group_name = ?1 AND d.priority = level.column1 AND d.due_at <= ?2
        LIMIT ?3
    )),
    (SELECT count(*) FROM (
        SELECT 1
        FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_held
        WHERE d.held_by IS NOT NULL AND d.group_name = ?1 AND d.due_at > ?2
        LIMIT ?3
    )),
    (SELECT count(*) FROM (
        SELECT 1
        FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_held
        WHERE d.held_by IS NOT NULL AND d.group_name = ?1 AND d.due_at <= ?2
        LIMIT ?3
    )),
    (SELECT count(*) FROM (SELECT 1 FROM mainspring_dead AS d WHERE d.group_name = ?1 LIMIT ?3)),
    (SELECT min((
        SELECT d.due_at
        FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
        WHERE d.held_by IS NULL AND d.group_name = ?1 AND d.priority = level.column1 AND d.due_at <= ?2
        ORDER BY d.due_at
        LIMIT 1
    )) FROM (VALUES (0), (1), (2), (3)) AS level)
