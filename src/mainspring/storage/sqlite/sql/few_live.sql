-- ?1 at most, ?2 before, ?3 state or held, ?4 group: may be null; ?5 now. One row: how many there are, counted to one more than
-- that, and their seqs: found by the indexes of what is to be had and of what is held. The LIMIT that is written out tells
-- the planner that names are few: who has run ANALYZE would have it read the whole index otherwise, to make a filter of it.
WITH RECURSIVE
unheld(name) AS (
    SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NULL AND ?4 IS NULL AND ?3 NOT IN ('held', 'running', 'lapsed')
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NULL AND group_name > unheld.name)
    FROM unheld
    WHERE unheld.name IS NOT NULL
    -- More groups than that are not asked one by one.
    LIMIT 1002
),
held(name) AS (
    SELECT min(group_name) FROM mainspring_delivery
    WHERE held_by IS NOT NULL AND ?4 IS NULL AND ?3 IN ('held', 'running', 'lapsed', 'live')
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NOT NULL AND group_name > held.name)
    FROM held
    WHERE held.name IS NOT NULL
    LIMIT 1002
),
named(name) AS (
    SELECT ?4 WHERE ?4 IS NOT NULL
    UNION
    SELECT name FROM unheld WHERE name IS NOT NULL
    UNION
    SELECT name FROM held WHERE name IS NOT NULL
)
-- Where there are more groups than are asked one by one, what was found is not all: as good as too many.
SELECT
    CASE WHEN (SELECT count(*) FROM (SELECT 1 FROM named LIMIT 1001)) > 1000 THEN ?1 + 1 ELSE count(*) END,
    json_group_array(seq) FILTER (WHERE seq < ?2)
FROM (
    SELECT d.seq AS seq
    FROM (SELECT name FROM named LIMIT 1000) AS named
    CROSS JOIN (VALUES (0), (1), (2), (3)) AS level
    CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
    WHERE ?3 IN ('ready', 'retrying', 'live')
      AND d.held_by IS NULL AND d.group_name = named.name AND d.priority = level.column1 AND d.due_at <= ?5
    UNION ALL
    SELECT d.seq
    FROM (SELECT name FROM named LIMIT 1000) AS named
    CROSS JOIN (VALUES (0), (1), (2), (3)) AS level
    CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
    WHERE ?3 IN ('scheduled', 'retrying', 'live')
      AND d.held_by IS NULL AND d.group_name = named.name AND d.priority = level.column1 AND d.due_at > ?5
    UNION ALL
    SELECT d.seq
    FROM (SELECT name FROM named LIMIT 1000) AS named
    CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_held
    WHERE ?3 IN ('held', 'running', 'live') AND d.held_by IS NOT NULL AND d.group_name = named.name AND d.due_at > ?5
    UNION ALL
    SELECT d.seq
    FROM (SELECT name FROM named LIMIT 1000) AS named
    CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_held
    WHERE ?3 IN ('held', 'lapsed', 'live') AND d.held_by IS NOT NULL AND d.group_name = named.name AND d.due_at <= ?5
    LIMIT ?1 + 1
)
