-- Retention.

-- part: TOPICS(table, after, many)
known(topic, place) AS (
    SELECT (SELECT min(r.topic) FROM mainspring_{table} AS r WHERE r.topic > {after}), 1
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_{table} AS r WHERE r.topic > known.topic), place + 1
    FROM known
    WHERE topic IS NOT NULL AND place < {many}
)

-- name: prune_audit
-- ?1 how long they are kept, ?2 limit, ?3 now; here and below, where nothing else is written.
DELETE FROM mainspring_audit
WHERE id IN (SELECT id FROM mainspring_audit WHERE at < ?3 - ?1 ORDER BY at, id LIMIT ?2)

-- name: prune_cursors
DELETE FROM mainspring_fanout_cursor
WHERE (topic, work, shard) IN (
    SELECT topic, work, shard FROM mainspring_fanout_cursor WHERE seen_at < ?3 - ?1 ORDER BY seen_at LIMIT ?2
)

-- name: prune_dead_of
SELECT seq, message_id FROM mainspring_dead WHERE topic = ?3 AND buried_at < ?1 ORDER BY buried_at, seq LIMIT ?2

-- name: prune_dead_read
SELECT seq, message_id FROM mainspring_dead WHERE buried_at < ?1 ORDER BY buried_at, seq LIMIT ?2

-- name: prune_ended_delete
DELETE FROM mainspring_ended WHERE id IN (SELECT value FROM json_each(?1))

-- name: prune_ended_read
SELECT id, at, second, message_ids FROM mainspring_ended WHERE at < ?1 ORDER BY at, id LIMIT ?2 OFFSET ?3

-- name: prune_inbox
DELETE FROM mainspring_inbox
WHERE rowid IN (
    SELECT rowid
    FROM mainspring_inbox
    WHERE status <> 'processing' AND changed_at < ?3 - ?1
    ORDER BY changed_at
    LIMIT ?2
)

-- name: prune_leases
DELETE FROM mainspring_lease
WHERE name IN (SELECT name FROM mainspring_lease WHERE expires_at < ?3 - ?1 ORDER BY expires_at, name LIMIT ?2)

-- name: prune_messages
-- Whatever copies says when ?2 is set: it was passed over once already. ?1 is ids end to end, ?3 when they ended:
-- what was published later is another life of the same id.
WITH RECURSIVE place(n) AS (
    SELECT 0 WHERE length(?1) >= 16
    UNION ALL
    SELECT n + 1 FROM place WHERE (n + 2) * 16 <= length(?1)
)
DELETE FROM mainspring_message
WHERE id IN (SELECT substr(?1, n * 16 + 1, 16) FROM place)
  AND (?2 OR copies = 1)
  AND published_at <= ?3
  AND NOT EXISTS (SELECT 1 FROM mainspring_delivery AS r WHERE r.message_id = mainspring_message.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_dead AS r WHERE r.message_id = mainspring_message.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_parked AS r WHERE r.message_id = mainspring_message.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_run AS r WHERE r.message_id = mainspring_message.id)

-- name: prune_messages_shared
-- ?1 is ids end to end, 16 bytes each: a blob goes into SQL as one parameter, and JSON cannot hold one.
WITH RECURSIVE place(n) AS (
    SELECT 0 WHERE length(?1) >= 16
    UNION ALL
    SELECT n + 1 FROM place WHERE (n + 2) * 16 <= length(?1)
)
SELECT m.id
FROM mainspring_message AS m
WHERE m.id IN (SELECT substr(?1, n * 16 + 1, 16) FROM place)
  AND m.copies <> 1
  AND m.published_at <= ?2
  AND NOT EXISTS (SELECT 1 FROM mainspring_delivery AS r WHERE r.message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_dead AS r WHERE r.message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_parked AS r WHERE r.message_id = m.id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_run AS r WHERE r.message_id = m.id)

-- name: prune_parked_count
UPDATE mainspring_counter SET value = value + ?1 WHERE name = 'expired_parked'

-- name: prune_parked_of
SELECT seq, message_id FROM mainspring_parked WHERE topic = ?3 AND parked_at < ?1 ORDER BY parked_at, seq LIMIT ?2

-- name: prune_parked_read
SELECT seq, message_id FROM mainspring_parked WHERE parked_at < ?1 ORDER BY parked_at, seq LIMIT ?2

-- name: prune_progress
DELETE FROM mainspring_progress
WHERE seq IN (
    SELECT p.seq
    FROM mainspring_progress AS p
    LEFT JOIN mainspring_delivery AS d ON d.seq = p.seq AND d.epoch = p.epoch AND d.held_by IS NOT NULL
    WHERE d.seq IS NULL
    ORDER BY p.seq
    LIMIT ?1
)

-- name: prune_runs_delete
DELETE FROM mainspring_run WHERE id IN (SELECT value FROM json_each(?1))

-- name: prune_runs_of
-- As prune_runs_read, of one topic: found by another index.
SELECT r.id, r.message_id
FROM mainspring_run AS r INDEXED BY mainspring_run_topic
WHERE r.topic = ?4
  AND r.status = ?1
  AND r.finished_at < ?2
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_delivery AS d WHERE d.message_id = r.message_id AND d.group_name = r.group_name
    )
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_dead AS d WHERE d.message_id = r.message_id AND d.group_name = r.group_name
    )
ORDER BY r.finished_at, r.id
LIMIT ?3

-- name: prune_runs_read
-- The runs of what is not over yet stay: a retry and a dead letter keep all their errors.
SELECT r.id, r.message_id
FROM mainspring_run AS r INDEXED BY mainspring_run_age
WHERE r.status = ?1
  AND r.finished_at < ?2
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_delivery AS d WHERE d.message_id = r.message_id AND d.group_name = r.group_name
    )
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_dead AS d WHERE d.message_id = r.message_id AND d.group_name = r.group_name
    )
ORDER BY r.finished_at, r.id
LIMIT ?3

-- name: prune_schedules
DELETE FROM mainspring_schedule
WHERE name IN (
    SELECT s.name
    FROM mainspring_schedule AS s
    WHERE s.origin = 'api' AND s.next_at IS NULL AND s.paused_at IS NULL AND s.base_at < ?3 - ?1
    ORDER BY s.name
    LIMIT ?2
)

-- name: topics_dead
-- ?1 now, ?2 after which topic, ?3 how many. The topics, and the age of the oldest of each: from one topic to the next by the
-- index, here and below.
WITH RECURSIVE TOPICS(dead, ?2, ?3)
SELECT topic, ?1 - (SELECT min(r.buried_at) FROM mainspring_dead AS r WHERE r.topic = known.topic)
FROM known
WHERE topic IS NOT NULL

-- name: topics_parked
-- ?1 now, ?2 after which topic, ?3 how many.
WITH RECURSIVE TOPICS(parked, ?2, ?3)
SELECT topic, ?1 - (SELECT min(r.parked_at) FROM mainspring_parked AS r WHERE r.topic = known.topic)
FROM known
WHERE topic IS NOT NULL

-- name: topics_ran
-- ?1 statuses, ?2 now, ?3 after which topic, ?4 how many.
WITH RECURSIVE TOPICS(run, ?3, ?4)
SELECT
    known.topic,
    ?2 - min((SELECT min(r.finished_at) FROM mainspring_run AS r WHERE r.topic = known.topic AND r.status = s.value))
FROM known, json_each(?1) AS s
WHERE known.topic IS NOT NULL
GROUP BY known.topic
ORDER BY known.topic
