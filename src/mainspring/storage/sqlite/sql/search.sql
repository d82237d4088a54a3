-- Searching deliveries by index.

-- name: browse_dead
-- ?1 seqs, ?2 limit; ?3 group, ?4 topic, ?5 key, ?6 text of the error, ?7 since, ?8 until, ?9 fingerprint, ?10 text in
-- small letters, as bytes: each may be null.
SELECT d.seq, d.message_id, d.group_name, d.topic, d.key, d.priority, d.attempt, d.deaths, d.scheduled_for,
       d.published_at, d.buried_at, d.error
FROM (SELECT value AS seq FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_dead AS d ON d.seq = s.seq
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE (?3 IS NULL OR d.group_name = ?3)
  AND (?4 IS NULL OR d.topic = ?4)
  AND (?5 IS NULL OR d.key = ?5)
  AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
  AND (?7 IS NULL OR d.published_at >= ?7)
  AND (?8 IS NULL OR d.published_at < ?8)
  AND (?9 IS NULL OR d.fingerprint = ?9)
  AND (?10 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?10))
ORDER BY s.seq DESC
LIMIT ?2

-- name: browse_ended
-- ?1 ids, ?2 limit; ?3 status, ?4 group, ?5 topic, ?6 text of the error, ?7 key, ?8 since, ?9 until, ?10 text in small
-- letters, as bytes: each but the status may be null. A run does not remember its delivery's times: the message's own
-- stands in for them.
SELECT r.id, r.message_id, r.group_name, r.topic, m.key, r.attempt, m.published_at, r.error
FROM (SELECT value AS id FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_run AS r ON r.id = s.id
CROSS JOIN mainspring_message AS m ON m.id = r.message_id
WHERE r.status = ?3
  AND (?4 IS NULL OR r.group_name = ?4)
  AND (?5 IS NULL OR r.topic = ?5)
  AND (?6 IS NULL OR instr(lower(coalesce(r.error, '')), lower(?6)))
  AND (?7 IS NULL OR m.key = ?7)
  AND (?8 IS NULL OR m.published_at >= ?8)
  AND (?9 IS NULL OR m.published_at < ?9)
  AND (?10 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?10))
ORDER BY s.id DESC
LIMIT ?2

-- name: browse_live
-- ?1 seqs, ?2 limit; ?3 state, ?4 group, ?5 key, ?6 held by, ?7 since, ?8 until, ?9 topic, ?10 text in small letters,
-- as bytes: each but the state may be null; ?11 now.
SELECT d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.attempt, d.deaths, d.due_at,
       d.scheduled_for, d.published_at, d.held_by, d.cancel_asked, p.said, p.at
FROM (SELECT value AS seq FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_delivery AS d ON d.seq = s.seq
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
LEFT JOIN mainspring_progress AS p ON p.seq = d.seq AND p.epoch = d.epoch AND d.held_by IS NOT NULL
WHERE CASE ?3
        WHEN 'live' THEN 1
        WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > ?11
        WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= ?11
        WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
        WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= ?11
        ELSE d.held_by IS NULL AND d.due_at > ?11
      END
  AND (?4 IS NULL OR d.group_name = ?4)
  AND (?5 IS NULL OR d.key = ?5)
  AND (?6 IS NULL OR d.held_by = ?6 OR substr(d.held_by, 1, length(d.held_by) - 16) = ?6 || '~')
  AND (?7 IS NULL OR d.published_at >= ?7)
  AND (?8 IS NULL OR d.published_at < ?8)
  AND (?9 IS NULL OR m.topic = ?9)
  AND (?10 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?10))
ORDER BY s.seq DESC
LIMIT ?2

-- name: browse_parked
-- ?1 seqs, ?2 limit; ?3 topic, ?4 key, ?5 since, ?6 until, ?7 text in small letters, as bytes: each may be null.
SELECT p.seq, p.message_id, p.topic, p.key, p.priority, p.due_at, p.scheduled_for, p.published_at
FROM (SELECT value AS seq FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_parked AS p ON p.seq = s.seq
CROSS JOIN mainspring_message AS m ON m.id = p.message_id
WHERE (?3 IS NULL OR p.topic = ?3)
  AND (?4 IS NULL OR p.key = ?4)
  AND (?5 IS NULL OR p.published_at >= ?5)
  AND (?6 IS NULL OR p.published_at < ?6)
  AND (?7 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?7))
ORDER BY s.seq DESC
LIMIT ?2

-- name: few_dead
-- ?1 at most, ?2 before, ?3 topic, or ?4 fingerprint. One row: how many there are, counted to one more than that, and their
-- seqs. A fingerprint is looked for in each group, from one to the next by the index.
WITH RECURSIVE groups(name) AS (
    SELECT min(group_name) FROM mainspring_dead WHERE ?4 IS NOT NULL
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_dead WHERE group_name > groups.name)
    FROM groups
    WHERE groups.name IS NOT NULL
    LIMIT 1002
)
-- Where there are more groups than are asked one by one, what was found is not all: as good as too many.
SELECT
    CASE WHEN (SELECT count(*) FROM (SELECT name FROM groups LIMIT 1001)) > 1000 THEN ?1 + 1 ELSE count(*) END,
    json_group_array(seq) FILTER (WHERE seq < ?2)
FROM (
    SELECT d.seq AS seq
    FROM (SELECT name FROM groups LIMIT 1000) AS groups  -- written out, see few_live
    CROSS JOIN mainspring_dead AS d INDEXED BY mainspring_dead_cause
    WHERE d.group_name = groups.name AND d.fingerprint = ?4
    UNION ALL
    SELECT d.seq FROM mainspring_dead AS d INDEXED BY mainspring_dead_topic WHERE ?4 IS NULL AND d.topic = ?3
    LIMIT ?1 + 1
)

-- name: few_ended
-- ?1 at most, ?2 before, ?3 status, ?4 topic: may be null. One row: how many there are, counted to one more than that, and
-- their ids.
SELECT count(*), json_group_array(id) FILTER (WHERE id < ?2)
FROM (
    SELECT r.id AS id FROM mainspring_run AS r INDEXED BY mainspring_run_age WHERE ?4 IS NULL AND r.status = ?3
    UNION ALL
    SELECT r.id FROM mainspring_run AS r INDEXED BY mainspring_run_topic WHERE r.topic = ?4 AND r.status = ?3
    LIMIT ?1 + 1
)

-- name: few_keyed
-- ?1 at most, ?2 before, ?3 of what (live, dead, parked, run), ?4 topic: may be null; ?5 key. One row: how many there are,
-- counted to one more than that, and their seqs. Without a topic each is asked, from one to the next by the index.
WITH RECURSIVE
topics(topic) AS (
    SELECT min(topic) FROM mainspring_message WHERE key IS NOT NULL AND ?4 IS NULL
    UNION ALL
    SELECT (SELECT min(topic) FROM mainspring_message WHERE key IS NOT NULL AND topic > topics.topic)
    FROM topics
    WHERE topics.topic IS NOT NULL
    -- More topics than that are not asked one by one.
    LIMIT 1001
),
named(topic) AS (
    SELECT ?4 WHERE ?4 IS NOT NULL
    UNION ALL
    SELECT topic FROM topics WHERE topic IS NOT NULL
),
messages(id) AS (
    SELECT m.id
    FROM (SELECT topic FROM named LIMIT 1001) AS named  -- written out, see few_live
    CROSS JOIN mainspring_message AS m INDEXED BY mainspring_message_key
    WHERE m.topic = named.topic AND m.key = ?5 AND m.key IS NOT NULL AND (SELECT count(*) FROM named) <= 1000
    LIMIT ?1 + 1
),
few(seq) AS (
    SELECT d.seq FROM messages CROSS JOIN mainspring_delivery AS d ON d.message_id = messages.id WHERE ?3 = 'live'
    UNION ALL
    SELECT d.seq FROM messages CROSS JOIN mainspring_dead AS d ON d.message_id = messages.id WHERE ?3 = 'dead'
    UNION ALL
    SELECT p.seq FROM messages CROSS JOIN mainspring_parked AS p ON p.message_id = messages.id WHERE ?3 = 'parked'
    UNION ALL
    SELECT r.id FROM messages CROSS JOIN mainspring_run AS r ON r.message_id = messages.id WHERE ?3 = 'run'
    LIMIT ?1 + 1
)
SELECT CASE
           WHEN (SELECT count(*) FROM named) > 1000 THEN ?1 + 1
           ELSE max((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
       END,
       (SELECT json_group_array(seq) FROM few WHERE seq < ?2)

-- name: few_live
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
