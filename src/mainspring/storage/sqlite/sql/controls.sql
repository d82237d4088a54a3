-- What operators do.

-- name: audit_amend
-- ?1 id, ?2 detail: null leaves it; ?3 what in it becomes ?4.
UPDATE mainspring_audit SET detail = replace(coalesce(?2, detail), ?3, ?4) WHERE id = ?1

-- name: audit_note
INSERT INTO mainspring_audit (at, by_whom, action, subject, detail) VALUES (?1, ?2, ?3, ?4, ?5)
RETURNING id

-- name: dead_delete
DELETE FROM mainspring_dead WHERE seq IN (SELECT value FROM json_each(?1))

-- name: dead_revive
-- epoch never goes back: it is the fence (invariant 2). A revival opens a new one, as a claim does.
INSERT INTO mainspring_delivery (
    seq, message_id, group_name, priority, due_at, epoch, scheduled_for, published_at, key, schedule, manual
)
SELECT d.seq, d.message_id, d.group_name, d.priority, ?2, d.epoch + 1, d.scheduled_for, d.published_at, d.key,
       d.schedule, d.manual
FROM json_each(?1) AS chosen
CROSS JOIN mainspring_dead AS d ON d.seq = chosen.value

-- name: dead_select_all
SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE (?1 IS NULL OR d.topic = ?1)
  AND (?2 IS NULL OR instr(lower(d.error), lower(?2)))
  AND (?3 IS NULL OR d.fingerprint = ?3)
ORDER BY d.seq
LIMIT ?4

-- name: dead_select_group
SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE d.group_name = ?1
  AND (?2 IS NULL OR d.topic = ?2)
  AND (?3 IS NULL OR instr(lower(d.error), lower(?3)))
  AND (?4 IS NULL OR d.fingerprint = ?4)
ORDER BY d.seq
LIMIT ?5

-- name: dead_select_message
SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE d.message_id = ?1
  AND (?2 IS NULL OR d.group_name = ?2)
  AND (?3 IS NULL OR d.topic = ?3)
  AND (?4 IS NULL OR instr(lower(d.error), lower(?4)))
  AND (?5 IS NULL OR d.fingerprint = ?5)
ORDER BY d.seq
LIMIT ?6

-- name: dead_select_picked
-- ?1 messages, 16 bytes each, and ?2 their groups; ?3 message id, ?4 group, ?5 topic, ?6 text of the error, ?7 fingerprint: each
-- of these may be null; ?8 limit.
SELECT DISTINCT d.seq, d.message_id
FROM json_each(?2) AS p
CROSS JOIN mainspring_dead AS d ON d.message_id = substr(?1, 16 * p.key + 1, 16) AND d.group_name = p.value
WHERE (?3 IS NULL OR d.message_id = ?3)
  AND (?4 IS NULL OR d.group_name = ?4)
  AND (?5 IS NULL OR d.topic = ?5)
  AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
  AND (?7 IS NULL OR d.fingerprint = ?7)
ORDER BY d.seq
LIMIT ?8

-- name: dead_take
DELETE FROM mainspring_dead WHERE message_id = ?1 AND group_name = ?2 RETURNING 1

-- name: drain
-- ?1 worker, ?2 since when it is to drain, and ?3 who wants that: both null where it is not to.
UPDATE mainspring_worker
SET draining_at = CASE WHEN ?2 IS NULL THEN NULL ELSE coalesce(draining_at, ?2) END, drained_by = ?3
WHERE name = ?1
RETURNING name

-- name: hasten
-- ?1 messages, 16 bytes each, and ?2 their groups; ?3 now. What waits for an earlier run of its schedule, until
-- model.schedule.NEVER, goes on waiting. Answers a row for each that is due now.
UPDATE mainspring_delivery
SET due_at = ?3
WHERE seq IN (
        SELECT d.seq
        FROM json_each(?2) AS p
        CROSS JOIN mainspring_delivery AS d ON d.message_id = substr(?1, 16 * p.key + 1, 16) AND d.group_name = p.value
        WHERE d.held_by IS NULL AND d.due_at > ?3 AND d.due_at < 253402214400000000
    )
RETURNING seq

-- name: pause
UPDATE mainspring_groups SET paused_at = ?2, paused_by = ?3, pause_reason = ?4 WHERE name = ?1 RETURNING 1

-- name: withdraw_find
-- ?1 messages, 16 bytes each, and ?2 their groups.
SELECT DISTINCT d.seq, d.message_id, d.held_by IS NOT NULL, d.join_id
FROM json_each(?2) AS p
CROSS JOIN mainspring_delivery AS d ON d.message_id = substr(?1, 16 * p.key + 1, 16) AND d.group_name = p.value
ORDER BY d.seq

-- name: withdraw_parked
-- ?1 messages, 16 bytes each, and ?2 their groups: empty for what is parked.
SELECT DISTINCT q.seq, q.message_id
FROM json_each(?2) AS p
CROSS JOIN mainspring_parked AS q ON q.message_id = substr(?1, 16 * p.key + 1, 16) AND p.value = ''
ORDER BY q.seq
