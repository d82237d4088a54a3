-- Cancelling.

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

-- name: cancel_parked_id
SELECT seq, message_id FROM mainspring_parked WHERE message_id = ?1

-- name: cancel_parked_key
SELECT p.seq, p.message_id
FROM mainspring_message AS m INDEXED BY mainspring_message_key
CROSS JOIN mainspring_parked AS p ON p.message_id = m.id
WHERE m.topic = ?1 AND m.key = ?2 AND m.key IS NOT NULL
ORDER BY p.seq

-- name: delivery_cancelled
-- What nobody held is cancelled by nobody: a run without a node, over as it begins.
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, 'cancelled', ?2, ?2, ?3,
       d.schedule,
       CASE
           WHEN d.manual THEN 'manual'
           WHEN d.schedule IS NOT NULL THEN 'schedule'
           WHEN d.scheduled_for > d.published_at THEN 'deferred'
           ELSE 'message'
       END,
       d.scheduled_for
FROM json_each(?1) AS dropped
CROSS JOIN mainspring_delivery AS d ON d.seq = dropped.value
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
