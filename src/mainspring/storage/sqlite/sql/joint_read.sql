-- Open joins by id, ?1 to ?2: what storage.continuations.view takes, then the oldest member that has not ended, or nulls.
SELECT
    j.id, j.opened_at, j.pending + j.done + j.failed, j.done + j.failed, j.failed,
    json_extract(j.on_done, '$.topic'), json_extract(j.on_done, '$.group'),
    json_extract(j.on_failed, '$.topic'), json_extract(j.on_failed, '$.group'),
    json_extract(coalesce(j.on_done, j.on_failed), '$.key'),
    json_extract(coalesce(j.on_done, j.on_failed), '$.correlation_id'),
    d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.attempt, d.deaths, d.due_at,
    d.scheduled_for, d.published_at, d.held_by, d.cancel_asked, p.said, p.at
FROM (SELECT * FROM mainspring_joint WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3) AS j
LEFT JOIN mainspring_delivery AS d ON d.seq = (
    SELECT e.seq FROM mainspring_delivery AS e INDEXED BY mainspring_delivery_join
    WHERE e.join_id = j.id ORDER BY e.seq LIMIT 1
)
LEFT JOIN mainspring_message AS m ON m.id = d.message_id
LEFT JOIN mainspring_progress AS p ON p.seq = d.seq AND p.epoch = d.epoch AND d.held_by IS NOT NULL
ORDER BY j.id
