-- Claiming, extending, reaping and releasing.

-- name: claim_hold
-- epoch only ever grows: it is the fence.
UPDATE mainspring_delivery
SET held_by = ?2, due_at = ?3, claimed_at = ?4, epoch = epoch + 1, attempt = attempt + 1
WHERE seq IN (SELECT value FROM json_each(?1)) AND held_by IS NULL

-- name: claim_scan
-- CROSS JOIN keeps the order: the index gives the deliveries as they are due, each looks up its one message.
SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule
FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.held_by IS NULL AND d.group_name = ?1 AND d.priority = ?2 AND d.due_at BETWEEN ?3 AND ?4
ORDER BY d.due_at, d.seq
LIMIT ?5

-- name: extend_hold
UPDATE mainspring_delivery SET due_at = ?2 WHERE seq IN (SELECT value FROM json_each(?1))

-- name: extend_read
-- ?1 seqs, ?2 owner.
SELECT d.seq, d.epoch, d.message_id, d.cancel_asked
FROM json_each(?1) AS claimed
CROSS JOIN mainspring_delivery AS d ON d.seq = claimed.value
WHERE d.held_by = ?2

-- name: paused
SELECT name FROM mainspring_groups WHERE paused_at IS NOT NULL

-- name: pin
-- Reads nothing, so that no snapshot is taken: it only meets the handle before the handler does.
SELECT 1

-- name: reap_hold
-- deaths counts only what was a suspect already: the innocent neighbour of a poison never collects any.
UPDATE mainspring_delivery
SET held_by = ?2, due_at = ?3, claimed_at = ?4, epoch = epoch + 1, attempt = attempt + 1, deaths = deaths + suspect, suspect = 1
WHERE seq = ?1

-- name: reap_lost
-- ?1 seq, ?2 now, ?3 hold, ?4 what became of it. A claim that has lapsed leaves a run, since its holder writes none. A
-- release that does not store when it claimed has done so before its last heartbeat. The holder is written as model.worker
-- shows it.
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, error, schedule, source, scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, 'lost', coalesce(d.claimed_at, d.due_at - ?3), ?2,
       CASE
           WHEN d.held_by LIKE '%~________________' AND substr(d.held_by, -16) NOT GLOB '*[^0-9a-f]*'
               THEN substr(d.held_by, 1, length(d.held_by) - 17)
           ELSE d.held_by
       END,
       'its claim lapsed: the worker died, froze or lost the database, and ' || ?4,
       d.schedule,
       CLAIM_SOURCE(d),
       d.scheduled_for
FROM mainspring_delivery AS d
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = ?1

-- name: reap_scan
SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule, d.suspect
FROM json_each(?1) AS served
CROSS JOIN mainspring_delivery AS d
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = (
        SELECT lapsed.seq
        FROM mainspring_delivery AS lapsed INDEXED BY mainspring_delivery_held
        WHERE lapsed.held_by IS NOT NULL AND lapsed.group_name = served.value AND lapsed.due_at <= ?2
          AND (?3 OR (lapsed.deaths = 0 AND lapsed.suspect = 0))
          AND NOT (lapsed.held_by = ?4 AND lapsed.seq IN (SELECT value FROM json_each(?5)))
        ORDER BY lapsed.due_at, lapsed.seq
        LIMIT 1
    )
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_groups AS g WHERE g.name = served.value AND g.paused_at IS NOT NULL
    )
ORDER BY d.due_at, d.seq
LIMIT 1

-- name: release_free
-- ?1 seqs, ?2 now. epoch never goes back: it is the fence (invariant 2). What its late holder settles is lost, not gone.
UPDATE mainspring_delivery
SET held_by = NULL, claimed_at = NULL, due_at = ?2, epoch = epoch + 1
WHERE seq IN (SELECT value FROM json_each(?1))

-- name: release_scan
-- ?1 group, ?2 now, ?3 and ?4 when the last one of the call before lapsed, and its seq; ?5 how many.
SELECT d.seq, d.due_at, LEFT_TO_REAP()
FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_held
WHERE d.held_by IS NOT NULL AND d.group_name = ?1 AND d.due_at <= ?2 AND (d.due_at, d.seq) > (?3, ?4)
ORDER BY d.due_at, d.seq
LIMIT ?5

-- name: take_read
SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule
FROM mainspring_delivery AS d
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.message_id = ?1 AND d.group_name = ?2 AND d.held_by IS NULL

-- name: upcoming
SELECT min((
    SELECT d.due_at
    FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
    WHERE d.held_by IS NULL AND d.group_name = served.value AND d.priority = level.column1 AND d.due_at > ?2
    ORDER BY d.due_at
    LIMIT 1
))
FROM json_each(?1) AS served
CROSS JOIN (VALUES (0), (1), (2), (3)) AS level
WHERE NOT EXISTS (
    SELECT 1 FROM mainspring_groups AS g WHERE g.name = served.value AND g.paused_at IS NOT NULL
)
