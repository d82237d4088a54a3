-- What operators do, and cancels.

-- part: DEAD_CHOSEN(topic, error, fingerprint)
({topic} IS NULL OR d.topic = {topic})
  AND ({error} IS NULL OR CONTAINS(d.error, {error}))
  AND ({fingerprint} IS NULL OR d.fingerprint = {fingerprint})

-- part: PICKED(table)
json_each(?2) AS p
CROSS JOIN mainspring_{table} AS d ON d.message_id = substr(?1, 16 * p.key + 1, 16) AND d.group_name = p.value

-- name: cancel_ask
UPDATE mainspring_delivery SET cancel_asked = 1 WHERE seq IN (SELECT value FROM json_each(?1))

-- name: cancel_find_id
SELECT seq, message_id, held_by IS NOT NULL, join_id FROM mainspring_delivery WHERE message_id = ?1 ORDER BY seq

-- name: cancel_find_key
SELECT d.seq, d.message_id, d.held_by IS NOT NULL, d.join_id
FROM mainspring_message AS m INDEXED BY mainspring_message_key
CROSS JOIN mainspring_delivery AS d ON d.message_id = m.id
WHERE m.topic = ?1 AND m.key = ?2 AND m.key IS NOT NULL
ORDER BY d.seq

-- name: cancel_find_picked
SELECT DISTINCT d.seq, d.message_id, d.held_by IS NOT NULL, d.join_id FROM PICKED(delivery) ORDER BY d.seq

-- name: cancel_parked_id
SELECT seq, message_id FROM mainspring_parked WHERE message_id = ?1

-- name: cancel_parked_key
SELECT p.seq, p.message_id
FROM mainspring_message AS m INDEXED BY mainspring_message_key
CROSS JOIN mainspring_parked AS p ON p.message_id = m.id
WHERE m.topic = ?1 AND m.key = ?2 AND m.key IS NOT NULL
ORDER BY p.seq

-- name: cancel_parked_picked
-- ?1 messages, 16 bytes each, and ?2 their groups: empty for what is parked.
SELECT DISTINCT q.seq, q.message_id
FROM json_each(?2) AS p
CROSS JOIN mainspring_parked AS q ON q.message_id = substr(?1, 16 * p.key + 1, 16) AND p.value = ''
ORDER BY q.seq

-- name: dead_delete
DELETE FROM mainspring_dead WHERE seq IN (SELECT value FROM json_each(?1))

-- name: dead_revive
-- epoch never goes back: it is the fence (invariant 2). A revival opens a new one, as a claim does, and the first one a range of
-- its own, by which its runs are known: model.message.REPLAYED.
INSERT INTO mainspring_delivery (
    seq, message_id, group_name, priority, due_at, epoch, scheduled_for, published_at, key, schedule, manual
)
SELECT d.seq, d.message_id, d.group_name, d.priority, ?2, max(d.epoch + 1, 1048576), d.scheduled_for, d.published_at, d.key,
       d.schedule, d.manual
FROM json_each(?1) AS chosen
CROSS JOIN mainspring_dead AS d ON d.seq = chosen.value

-- name: dead_select_all
SELECT d.seq, d.message_id FROM mainspring_dead AS d WHERE DEAD_CHOSEN(?1, ?2, ?3) ORDER BY d.seq LIMIT ?4

-- name: dead_select_group
SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE d.group_name = ?1 AND DEAD_CHOSEN(?2, ?3, ?4)
ORDER BY d.seq
LIMIT ?5

-- name: dead_select_message
SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE d.message_id = ?1 AND (?2 IS NULL OR d.group_name = ?2) AND DEAD_CHOSEN(?3, ?4, ?5)
ORDER BY d.seq
LIMIT ?6

-- name: dead_select_picked
-- ?1 messages, 16 bytes each, and ?2 their groups, here and where else PICKED is used; ?3 message id, ?4 group, ?5 topic, ?6
-- text of the error, ?7 fingerprint: each of these may be null; ?8 limit.
SELECT DISTINCT d.seq, d.message_id
FROM PICKED(dead)
WHERE (?3 IS NULL OR d.message_id = ?3) AND (?4 IS NULL OR d.group_name = ?4) AND DEAD_CHOSEN(?5, ?6, ?7)
ORDER BY d.seq
LIMIT ?8

-- name: dead_take
DELETE FROM mainspring_dead WHERE message_id = ?1 AND group_name = ?2 RETURNING 1

-- name: delivery_cancelled
-- An unheld delivery is cancelled by no worker: a run without a node, over as it begins.
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, 'cancelled', ?2, ?2, ?3,
       d.schedule,
       RUN_SOURCE(d),
       d.scheduled_for
FROM json_each(?1) AS dropped
CROSS JOIN mainspring_delivery AS d ON d.seq = dropped.value
CROSS JOIN mainspring_message AS m ON m.id = d.message_id

-- name: drain
-- ?1 worker, ?2 since when it is to drain, ?3 by whom and ?4 why: all null where it is not to.
UPDATE mainspring_worker
SET draining_at = CASE WHEN ?2 IS NULL THEN NULL ELSE coalesce(draining_at, ?2) END, drained_by = ?3, drain_reason = ?4
WHERE name = ?1
RETURNING name

-- name: pause
UPDATE mainspring_groups SET paused_at = ?2, paused_by = ?3, pause_reason = ?4 WHERE name = ?1 RETURNING 1

-- name: run_now
-- ?3 now. What waits for an earlier run of its schedule, until model.schedule.NEVER, goes on waiting. Returns a row for each
-- that is due now.
UPDATE mainspring_delivery
SET due_at = ?3
WHERE seq IN (
        SELECT d.seq FROM PICKED(delivery) WHERE d.held_by IS NULL AND d.due_at > ?3 AND d.due_at < NEVER()
    )
RETURNING seq

-- name: replayed
-- ?1 message id, ?2 model.message.REPLAYED. The copy that replaces a dead letter is a replay, as a revived one.
UPDATE mainspring_delivery SET epoch = ?2 WHERE message_id = ?1 AND epoch = 0
