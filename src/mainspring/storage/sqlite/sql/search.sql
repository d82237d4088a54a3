-- Searches of deliveries and causes of death.

-- part: SHARE()
-- How many batches are read of each message that was handled, from its publishing on.
max(100, 100000 / (SELECT count(*) FROM messages))

-- part: FEW()
-- Of what (?3: live, dead, parked, run, handled) the seqs of these messages, up to one more than ?1.
few(seq, id) AS MATERIALIZED (
    SELECT d.seq, d.message_id FROM messages CROSS JOIN mainspring_delivery AS d ON d.message_id = messages.id WHERE ?3 = 'live'
    UNION ALL
    SELECT d.seq, d.message_id FROM messages CROSS JOIN mainspring_dead AS d ON d.message_id = messages.id WHERE ?3 = 'dead'
    UNION ALL
    SELECT p.seq, p.message_id FROM messages CROSS JOIN mainspring_parked AS p ON p.message_id = messages.id WHERE ?3 = 'parked'
    UNION ALL
    SELECT r.id, r.message_id FROM messages CROSS JOIN mainspring_run AS r ON r.message_id = messages.id WHERE ?3 = 'run'
    UNION ALL
    SELECT PLACE_IN(e, messages.id), messages.id
    FROM messages
    CROSS JOIN mainspring_ended AS e INDEXED BY mainspring_ended_age
    WHERE ?3 = 'handled' AND HANDLED_WITHIN(e, messages, SHARE())
    LIMIT ?1 + 1
),
found(id, times) AS MATERIALIZED (SELECT id, count(*) FROM few WHERE ?3 = 'handled' GROUP BY id),
-- Whether a message that was handled may be in a batch that was not read: it has copies that are nowhere else.
passed_over(any) AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1
        FROM messages
        LEFT JOIN found ON found.id = messages.id
        WHERE ?3 = 'handled'
          AND coalesce(found.times, 0) < max(messages.copies, 1)
              - (SELECT count(*) FROM mainspring_delivery AS d WHERE d.message_id = messages.id)
              - (SELECT count(*) FROM mainspring_dead AS d WHERE d.message_id = messages.id)
              - (SELECT count(*) FROM mainspring_run AS r WHERE r.message_id = messages.id AND r.status = 'cancelled')
          AND EXISTS (SELECT 1 FROM mainspring_ended AS e WHERE e.at >= messages.published_at LIMIT 1 OFFSET SHARE())
    )
)

-- name: causes_count
-- ?1 pairs of group and fingerprint, ?2 how many of each at most. The place of each cause, how many it has, and when the
-- first and the last of those was buried. A subquery has one column, and is to be run once.
WITH counted(place, told) AS MATERIALIZED (
    SELECT c.key, (
        SELECT json_array(count(*), min(buried_at), max(buried_at))
        FROM (
            SELECT d.buried_at
            FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
            WHERE d.group_name = json_extract(c.value, '$[0]') AND d.fingerprint = json_extract(c.value, '$[1]')
            ORDER BY d.seq DESC
            LIMIT ?2
        )
    )
    FROM json_each(?1) AS c
)
SELECT place, json_extract(told, '$[0]'), json_extract(told, '$[1]'), json_extract(told, '$[2]') FROM counted

-- name: causes_known
-- ?1 group, may be null; ?2 how many steps. Groups and fingerprints, from one to the next by the index.
WITH RECURSIVE
first(group_name) AS (SELECT min(group_name) FROM mainspring_dead WHERE group_name >= coalesce(?1, '')),
cause(group_name, fingerprint, step) AS (
    SELECT group_name, (SELECT min(fingerprint) FROM mainspring_dead AS d WHERE d.group_name = first.group_name), 1
    FROM first
    UNION ALL
    SELECT (
               SELECT d.group_name
               FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE (d.group_name, d.fingerprint) > (cause.group_name, cause.fingerprint)
               ORDER BY d.group_name, d.fingerprint
               LIMIT 1
           ),
           (
               SELECT d.fingerprint
               FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
               WHERE (d.group_name, d.fingerprint) > (cause.group_name, cause.fingerprint)
               ORDER BY d.group_name, d.fingerprint
               LIMIT 1
           ),
           cause.step + 1
    FROM cause
    WHERE cause.step < ?2
      AND cause.group_name IS NOT NULL
      AND (?1 IS NULL OR cause.group_name = ?1)
)
SELECT group_name, fingerprint
FROM cause
WHERE group_name IS NOT NULL
  AND (?1 IS NULL OR group_name = ?1)

-- name: causes_latest
-- ?1 pairs of group and fingerprint. The place of each cause, and kind and error of the newest of its dead letters.
SELECT c.key, d.kind, d.error
FROM json_each(?1) AS c
CROSS JOIN mainspring_dead AS d
WHERE d.seq = (
    SELECT max(n.seq)
    FROM mainspring_dead AS n INDEXED BY mainspring_dead_cause
    WHERE n.group_name = json_extract(c.value, '$[0]') AND n.fingerprint = json_extract(c.value, '$[1]')
)

-- name: payload_sizes
-- ?1 seqs, ?2 of what (live, dead, parked, run, handled). How many bytes the payload of each has, newest first: that is known without
-- reading it.
WITH s(seq) AS MATERIALIZED (SELECT value FROM json_each(?1)),
c(seq, message_id) AS (
    SELECT s.seq, d.message_id FROM s CROSS JOIN mainspring_delivery AS d ON d.seq = s.seq WHERE ?2 = 'live'
    UNION ALL
    SELECT s.seq, d.message_id FROM s CROSS JOIN mainspring_dead AS d ON d.seq = s.seq WHERE ?2 = 'dead'
    UNION ALL
    SELECT s.seq, p.message_id FROM s CROSS JOIN mainspring_parked AS p ON p.seq = s.seq WHERE ?2 = 'parked'
    UNION ALL
    SELECT s.seq, r.message_id FROM s CROSS JOIN mainspring_run AS r ON r.id = s.seq WHERE ?2 = 'run'
    UNION ALL
    SELECT s.seq, LISTED(e.message_ids, PLACE_OF(s.seq))
    FROM s CROSS JOIN mainspring_ended AS e ON e.id = BATCH_OF(s.seq) WHERE ?2 = 'handled'
)
SELECT c.seq, length(m.payload) FROM c CROSS JOIN mainspring_message AS m ON m.id = c.message_id ORDER BY c.seq DESC

-- name: via_index_correlated
-- ?1 at most, ?2 before, ?3 of what (live, dead, parked, run, handled), ?4 correlation id, ?5 the message of that id: may be null. One
-- row: how many there are, counted to one more than that, and their seqs. The first message of a chain need not have the
-- correlation id of the others, which is its own id.
WITH messages(id, published_at, copies) AS MATERIALIZED (
    SELECT m.id, m.published_at, m.copies
    FROM mainspring_message AS m INDEXED BY mainspring_message_correlation
    WHERE m.correlation_id = ?4 AND m.correlation_id IS NOT NULL
    UNION ALL
    SELECT m.id, m.published_at, m.copies FROM mainspring_message AS m WHERE m.id = ?5 AND m.correlation_id IS NULL
    LIMIT ?1 + 1
),
FEW()
SELECT CASE
           WHEN (SELECT any FROM passed_over) THEN ?1 + 1
           ELSE max((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
       END,
       (SELECT json_group_array(seq) FROM few WHERE seq < ?2)

-- part: HANDLED_WITHIN(batch, message, most)
-- Whether a message was handled in a batch from its publishing on, of which at most so many are read.
{batch}.at BETWEEN {message}.published_at AND coalesce(
        (SELECT at FROM mainspring_ended WHERE at >= {message}.published_at ORDER BY at LIMIT 1 OFFSET {most}),
        9223372036854775807
    )
    AND {batch}.group_name IS NOT NULL
    AND LISTS({batch}.message_ids, {message}.id)

-- part: PLACE_IN(batch, id)
-- Ids of 16 bytes end to end: one of them may be found within two others, too.
(
    WITH RECURSIVE place(n) AS (
        SELECT 1
        UNION ALL
        SELECT n + 1 FROM place WHERE LISTED({batch}.message_ids, n) <> {id} AND n < length({batch}.message_ids) / 16
    )
    SELECT PLACED({batch}.id, max(n)) FROM place
)

-- name: find_handled
-- ?1 message id, ?2 how many batches are read at most. Which entries of batches are about it.
SELECT PLACE_IN(e, m.id)
FROM mainspring_message AS m
CROSS JOIN mainspring_ended AS e INDEXED BY mainspring_ended_age
WHERE m.id = ?1 AND HANDLED_WITHIN(e, m, ?2)

-- name: scan_handled
-- ?1 before which, ?2 how many; ?3 group, ?4 kind: each may be null. As scan_ended, of batches: entries of another group, or of messages that
-- have ended in another way, count as one. The entries of a batch come one by one, the highest first, so that no more are made
-- than are looked at.
WITH RECURSIVE
batch(id, size, hit) AS (
    SELECT e.id, min(length(e.message_ids) / 16, 16383), HANDLED_MATCH(?3, ?4)
    FROM mainspring_ended AS e
    WHERE e.id <= BATCH_OF(?1)
    ORDER BY e.id DESC
    -- Of the first, all may have been seen.
    LIMIT ?2 + 1
),
entry(id, place, hit) AS (
    SELECT id, CASE WHEN NOT hit THEN 0 WHEN id = BATCH_OF(?1) THEN min(size, PLACE_OF(?1) - 1) ELSE size END, hit
    FROM batch
    WHERE PLACED(id, hit) < ?1
    UNION ALL
    SELECT id, place - 1, hit FROM entry WHERE place > 1
    ORDER BY 1 DESC, 2 DESC
    LIMIT ?2
)
SELECT count(*), min(PLACED(id, place)), json_group_array(PLACED(id, place)) FILTER (WHERE hit) FROM entry

-- name: via_index_dead
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

-- name: via_index_ended
-- ?1 at most, ?2 before, ?3 status, ?4 topic: may be null. One row: how many there are, counted to one more than that, and
-- their ids.
SELECT count(*), json_group_array(id) FILTER (WHERE id < ?2)
FROM (
    SELECT r.id AS id FROM mainspring_run AS r INDEXED BY mainspring_run_age WHERE ?4 IS NULL AND r.status = ?3
    UNION ALL
    SELECT r.id FROM mainspring_run AS r INDEXED BY mainspring_run_topic WHERE r.topic = ?4 AND r.status = ?3
    LIMIT ?1 + 1
)

-- name: via_index_keyed
-- ?1 at most, ?2 before, ?3 of what (live, dead, parked, run, handled), ?4 topic: may be null; ?5 key. One row: how many there are,
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
messages(id, published_at, copies) AS MATERIALIZED (
    SELECT m.id, m.published_at, m.copies
    FROM (SELECT topic FROM named LIMIT 1001) AS named  -- written out, see few_live
    CROSS JOIN mainspring_message AS m INDEXED BY mainspring_message_key
    WHERE m.topic = named.topic AND m.key = ?5 AND m.key IS NOT NULL AND (SELECT count(*) FROM named) <= 1000
    LIMIT ?1 + 1
),
FEW()
SELECT CASE
           WHEN (SELECT count(*) FROM named) > 1000 OR (SELECT any FROM passed_over) THEN ?1 + 1
           ELSE max((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
       END,
       (SELECT json_group_array(seq) FROM few WHERE seq < ?2)

-- name: via_index_live
-- ?1 at most, ?2 before, ?3 state or held, ?4 group: may be null; ?5 now. One row: how many there are, counted to one more than
-- that, and their seqs: found by the indexes of what is to be had and of what is held. The LIMIT that is written out tells
-- the planner that names are few: after ANALYZE it would read the whole index otherwise, to make a filter of it.
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
