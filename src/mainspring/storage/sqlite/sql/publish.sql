-- Publishing, with unique keys and without.

-- name: parked_cancelled
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
)
SELECT p.message_id, '', p.topic, 0, 'cancelled', ?2, ?2, ?3,
       p.schedule,
       RUN_SOURCE(p),
       p.scheduled_for
FROM json_each(?1) AS dropped
CROSS JOIN mainspring_parked AS p ON p.seq = dropped.value

-- name: parked_delete
DELETE FROM mainspring_parked WHERE seq IN (SELECT value FROM json_each(?1))

-- name: pending
-- The scan stops at ?2, so a backlog of millions costs no more than one of so many.
SELECT count(*) FROM (
    SELECT 1
    FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
    WHERE d.held_by IS NULL AND d.group_name = ?1
    LIMIT ?2
)

-- name: prune_unique
-- ?1 now, ?2 limit. Of the first ones to be looked at those whose message is over.
DELETE FROM mainspring_likeness
WHERE hash IN (SELECT hash FROM mainspring_likeness WHERE until < ?1 ORDER BY until, hash LIMIT ?2)
  AND NOT EXISTS (SELECT 1 FROM mainspring_delivery AS d WHERE d.message_id = mainspring_likeness.message_id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_parked AS p WHERE p.message_id = mainspring_likeness.message_id)

-- name: prune_unique_later
-- ?1 now, ?2 how many of the first ones are left, ?3 when to look at them again. Those that are needed make room for the
-- others: a batch is never all of what waits for a year.
UPDATE mainspring_likeness
SET until = ?3
WHERE hash IN (SELECT hash FROM mainspring_likeness WHERE until < ?1 ORDER BY until, hash LIMIT ?2)

-- name: publish_begin_one
-- ?1 the host's time, ?2 topic or null, ?3 message id. Takes the write lock, as clock_mark does, and says all that one
-- publish has to know: what time it is, whether the id is known, and which groups subscribe to the topic, or may.
UPDATE mainspring_clock SET at = CASE WHEN at < ?1 - 100000 THEN ?1 ELSE at END
RETURNING
    at,
    EXISTS (SELECT 1 FROM mainspring_message WHERE id = ?3),
    (
        SELECT json_group_array(json_array(pattern, group_name))
        FROM mainspring_subscription
        WHERE ?2 IS NOT NULL AND (wild OR pattern = ?2)
    )

-- name: publish_copies
-- ?1 message id, ?2 topic, ?3 priority, ?4 due, ?5 scheduled for, ?6 published, ?7 key.
INSERT INTO mainspring_delivery (message_id, group_name, priority, due_at, scheduled_for, published_at, key)
SELECT ?1, group_name, ?3, ?4, ?5, ?6, ?7
FROM mainspring_subscription
WHERE pattern = ?2
ORDER BY group_name

-- name: publish_delivery
INSERT INTO mainspring_delivery (
    message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual, join_id
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: publish_known
-- ?1 place, ?2 id, ?3 topic, ?4 payload: a draft whose id is known. Returns its place if it is known as another message,
-- and the topic of that.
WITH draft (place, id, topic, payload) AS (
VALUES (?1, ?2, ?3, ?4)
)
SELECT draft.place, known.topic
FROM draft
INNER JOIN mainspring_message AS known ON known.id = draft.id
WHERE known.topic <> draft.topic OR known.payload <> draft.payload

-- name: publish_message
INSERT INTO mainspring_message (
    id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: publish_message_one
-- Whether the id is known has been asked, under the write lock.
INSERT INTO mainspring_message (
    id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- name: publish_one
-- ?1 to ?8 the message; ?9 the host's time, ?10 whether the stored clock counts too; ?11 expiry, ?12 time to live;
-- ?13 group. Stores the message, and says when, what the clock is at and how many copies there are to be. Nothing where
-- the id is known, or where patterns have to be asked: those are matched in Python.
INSERT INTO mainspring_message (
    id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
)
SELECT
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, clock.now, coalesce(?11, clock.now + ?12),
    CASE WHEN ?13 IS NOT NULL THEN 1 ELSE (SELECT count(*) FROM mainspring_subscription WHERE pattern = ?2) END
FROM (SELECT CASE WHEN ?10 THEN max(?9, at) ELSE ?9 END AS now FROM mainspring_clock) AS clock
WHERE ?13 IS NOT NULL OR NOT EXISTS (SELECT 1 FROM mainspring_subscription WHERE wild)
ON CONFLICT (id) DO NOTHING
RETURNING published_at, (SELECT at FROM mainspring_clock), copies

-- name: publish_parked
INSERT INTO mainspring_parked (
    message_id, topic, key, priority, due_at, scheduled_for, published_at, parked_at, schedule, manual
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: publish_routes
SELECT pattern, group_name
FROM mainspring_subscription
WHERE pattern IN (SELECT value FROM json_each(?1)) AND NOT wild
UNION ALL
SELECT pattern, group_name
FROM mainspring_subscription
WHERE wild

-- name: reroute_named
-- The parked topics that are subscribed to by name: a look into the index for each.
SELECT DISTINCT s.pattern
FROM mainspring_subscription AS s
WHERE NOT s.wild AND EXISTS (SELECT 1 FROM mainspring_parked AS p WHERE p.topic = s.pattern)

-- name: reroute_read
SELECT seq FROM mainspring_parked WHERE topic = ?1 ORDER BY seq LIMIT ?2

-- name: reroute_rows
SELECT message_id, topic, key, priority, due_at, scheduled_for, published_at, schedule, manual
FROM mainspring_parked
WHERE seq IN (SELECT value FROM json_each(?1))
ORDER BY seq

-- name: reroute_topics
-- A loose scan: one step into the index per topic. ?1 after which topic, ?2 how many.
WITH RECURSIVE parked(topic, place) AS (
    SELECT (SELECT min(topic) FROM mainspring_parked WHERE topic > ?1), 1
    WHERE EXISTS (SELECT 1 FROM mainspring_subscription WHERE wild)
    UNION ALL
    SELECT (SELECT min(topic) FROM mainspring_parked WHERE topic > parked.topic), place + 1
    FROM parked
    WHERE parked.topic IS NOT NULL AND place < ?2
)
SELECT topic FROM parked WHERE topic IS NOT NULL

-- name: unique_enter
-- ?1 hash, ?2 message id, ?3 now, ?4 until.
INSERT INTO mainspring_likeness (hash, message_id, published_at, until)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (hash) DO UPDATE SET
    message_id = excluded.message_id,
    published_at = excluded.published_at,
    until = excluded.until

-- name: unique_extend
UPDATE mainspring_likeness SET until = published_at + ?2 WHERE hash = ?1 AND until < published_at + ?2

-- name: unique_free
-- ?1 message id. Its copies that no worker has taken, as cancel_find_id.sql tells them.
SELECT seq, message_id, 0, join_id FROM mainspring_delivery WHERE message_id = ?1 AND epoch = 0 ORDER BY seq

-- name: unique_look
-- ?1 hash, ?2 id of the new message. One row: whether that id is known; of the last message of this likeness its id and
-- when it was published, both null where there is none; whether it is parked; how many of its copies are left, how many
-- of them have begun, and how many there were.
SELECT
    EXISTS (SELECT 1 FROM mainspring_message WHERE id = ?2),
    l.message_id,
    l.published_at,
    EXISTS (SELECT 1 FROM mainspring_parked WHERE message_id = l.message_id),
    (SELECT count(*) FROM mainspring_delivery WHERE message_id = l.message_id),
    (SELECT count(*) FROM mainspring_delivery WHERE message_id = l.message_id AND epoch > 0),
    (SELECT copies FROM mainspring_message WHERE id = l.message_id)
FROM (SELECT 1) AS one
LEFT JOIN mainspring_likeness AS l ON l.hash = ?1
