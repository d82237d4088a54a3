-- Joins: members, ends, what follows.

-- name: joint_complete
SELECT id, on_done, on_failed, done, failed
FROM mainspring_joint INDEXED BY mainspring_joint_complete
WHERE pending <= 0
ORDER BY id
LIMIT ?1

-- name: joint_count
UPDATE mainspring_joint SET pending = pending - ?2 - ?3, done = done + ?2, failed = failed + ?3 WHERE id = ?1

-- name: joint_delete
DELETE FROM mainspring_joint WHERE id = ?1

-- name: joint_failures
-- Members that were buried or cancelled since ?1, by the id of their join as text. Each of them has left a run, whatever is
-- kept of successes.
SELECT json_extract(m.headers, '$."mainspring-join-member"'), count(DISTINCT r.message_id)
FROM mainspring_run AS r INDEXED BY mainspring_run_age
CROSS JOIN mainspring_message AS m ON m.id = r.message_id
WHERE r.status IN ('dead', 'cancelled') AND r.finished_at >= ?1 AND m.headers LIKE '%"mainspring-join-member"%'
GROUP BY 1

-- name: joint_read
-- ?1 first id, ?2 last id, ?3 limit, ?4 now. Open joins by id: what portable.joins.join_view takes, then the oldest member
-- that has not ended, with columns in the order of model.views.DeliveryView, or nulls.
SELECT
    j.id, j.opened_at, j.pending + j.done + j.failed, j.done + j.failed, j.failed,
    json_extract(j.on_done, '$.topic'), json_extract(j.on_done, '$.group'),
    json_extract(j.on_failed, '$.topic'), json_extract(j.on_failed, '$.group'),
    json_extract(coalesce(j.on_done, j.on_failed), '$.key'),
    json_extract(coalesce(j.on_done, j.on_failed), '$.correlation_id'),
    DELIVERY_COLUMNS(?4)
FROM (SELECT * FROM mainspring_joint WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3) AS j
LEFT JOIN mainspring_delivery AS d ON d.seq = (
    SELECT e.seq FROM mainspring_delivery AS e INDEXED BY mainspring_delivery_join
    WHERE e.join_id = j.id ORDER BY e.seq LIMIT 1
)
LEFT JOIN mainspring_message AS m ON m.id = d.message_id
PROGRESS()
ORDER BY j.id

-- name: joint_recount
-- What is pending has a delivery: what is pending beyond that has ended uncounted.
SELECT
    j.id, j.opened_at, j.failed,
    j.pending - (
        SELECT count(*) FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_join WHERE d.join_id = j.id
    )
FROM mainspring_joint AS j
WHERE j.id >= ?1
ORDER BY j.id
LIMIT ?2
