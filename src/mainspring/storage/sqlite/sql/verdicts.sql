-- Settling.

-- name: delivery_delete
DELETE FROM mainspring_delivery WHERE seq IN (SELECT value FROM json_each(?1))

-- name: ended_add
INSERT INTO mainspring_ended (at, second, message_ids) VALUES (?1, ?2, ?3)

-- name: ended_handled
-- ?1 now, ?2 ids end to end, ?3 group, ?4 kind, ?5 owner.
INSERT INTO mainspring_ended (at, second, message_ids, group_name, kind, held_by) VALUES (?1, 0, ?2, ?3, ?4, ?5)

-- name: settle_back
-- epoch never goes back: it is the fence (invariant 2). Only the attempt count forgives.
UPDATE mainspring_delivery
SET held_by = NULL, claimed_at = NULL, suspect = 0, due_at = ?2, attempt = max(attempt - ?3, 0)
WHERE seq = ?1

-- name: settle_bury
INSERT INTO mainspring_dead (
    seq, message_id, group_name, topic, key, priority, epoch, attempt, deaths, scheduled_for, published_at,
    kind, error, buried_at, schedule, manual, fingerprint, repeats
)
SELECT d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.epoch, d.attempt, d.deaths,
       d.scheduled_for, d.published_at, ?2, ?3, ?4, d.schedule, d.manual, ?5, ?6
FROM mainspring_delivery AS d
JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = ?1

-- name: settle_by_occurrence
-- ?1 seqs. The same, by the times that they are for.
SELECT d.seq
FROM json_each(?1) AS claimed
CROSS JOIN mainspring_delivery AS d ON d.seq = claimed.value
ORDER BY d.scheduled_for, d.seq

-- name: settle_replace
-- ?1 the seq of an occurrence. Removes the dead letters of earlier ones of its schedule in its group, and returns the message
-- of each and how many it had replaced. Manual ones replace none, and are not replaced. One with another payload is other
-- work, no repetition.
DELETE FROM mainspring_dead
WHERE seq IN (
    SELECT e.seq
    FROM mainspring_delivery AS d
    CROSS JOIN mainspring_message AS m ON m.id = d.message_id
    CROSS JOIN mainspring_dead AS e INDEXED BY mainspring_dead_schedule
        ON e.schedule = d.schedule AND e.group_name = d.group_name
    CROSS JOIN mainspring_message AS n ON n.id = e.message_id
    WHERE d.seq = ?1 AND NOT d.manual
      AND e.schedule IS NOT NULL AND NOT e.manual AND e.scheduled_for <= d.scheduled_for
      AND n.topic = m.topic AND n.content_type = m.content_type AND n.payload = m.payload
)
RETURNING message_id, repeats

-- name: settle_forget
DELETE FROM mainspring_run
WHERE status IN ('failed', 'snoozed', 'lost')
  AND message_id = ?1
  AND group_name = (SELECT group_name FROM mainspring_delivery WHERE seq = ?2)

-- name: settle_lock
-- ?1 seq, ?2 epoch. Changes nothing, and takes the write lock.
UPDATE mainspring_delivery SET epoch = epoch WHERE seq = ?1 AND epoch = ?2

-- name: settle_read
SELECT d.seq, d.epoch, d.held_by, d.message_id, d.attempt, d.cancel_asked, d.join_id, d.group_name,
       KIND(d, d.published_at)
FROM json_each(?1) AS claimed
CROSS JOIN mainspring_delivery AS d ON d.seq = claimed.value

-- name: settle_run
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    schedule, source, scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, ?2, ?3, ?4, ?9, ?5, ?6, ?7, ?8,
       d.schedule,
       CLAIM_SOURCE(d),
       d.scheduled_for
FROM mainspring_delivery AS d
JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = ?1
