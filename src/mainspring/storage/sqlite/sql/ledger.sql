-- Reading one message, its runs, the roster and the audit.

-- name: chain
-- ?1 message id, ?2 limit, ?3 now. Rows of (whether it is a cause, how far away, and the columns of model.browsing.Link), on
-- either side up to one more than the limit. A message that is its own cause, directly or not, is listed once.
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
    -- IN: after ANALYZE the planner would read the whole index otherwise, to make a filter of it.
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
       MESSAGE_STATE(?3)
FROM linked
CROSS JOIN mainspring_message AS m ON m.id = linked.id
ORDER BY linked.is_cause, linked.distance, m.published_at, m.id

-- name: earlier
-- The messages of all that may still run, or be revived.
SELECT message_id FROM mainspring_delivery
UNION
SELECT message_id FROM mainspring_parked
UNION
SELECT message_id FROM mainspring_dead

-- name: roster_groups
-- ?1 now. A row per group (name null when there is none): now, then columns in the order of model.views.GroupView.
SELECT
    clock.now, g.name, g.app,
    (
        SELECT json_group_array(s.pattern)
        FROM (SELECT pattern FROM mainspring_subscription WHERE group_name = g.name ORDER BY pattern) AS s
    ),
    g.handler, g.options, g.declared_at, g.served_at, g.paused_at, g.paused_by, g.pause_reason
FROM (SELECT ?1 AS now) AS clock
LEFT JOIN mainspring_groups AS g ON true
ORDER BY g.name

-- name: tally_done
SELECT group_name, sum(handled), sum(failed) FROM mainspring_tally GROUP BY group_name

-- name: tally_group
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

-- name: tally_names
-- A loose scan: one step into the index per name, however many rows there are under it.
WITH RECURSIVE
ready(name) AS (
    SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NULL
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NULL AND group_name > ready.name)
    FROM ready
    WHERE ready.name IS NOT NULL
),
held(name) AS (
    SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NOT NULL
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NOT NULL AND group_name > held.name)
    FROM held
    WHERE held.name IS NOT NULL
),
dead(name) AS (
    SELECT min(group_name) FROM mainspring_dead
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_dead WHERE group_name > dead.name)
    FROM dead
    WHERE dead.name IS NOT NULL
)
SELECT name FROM ready WHERE name IS NOT NULL
UNION
SELECT name FROM held WHERE name IS NOT NULL
UNION
SELECT name FROM dead WHERE name IS NOT NULL
UNION
SELECT name FROM mainspring_groups
ORDER BY name

-- name: tally_parked
-- ?1 cap.
SELECT (SELECT count(*) FROM (SELECT 1 FROM mainspring_parked LIMIT ?1)),
       (SELECT value FROM mainspring_counter WHERE name = 'expired_parked')
