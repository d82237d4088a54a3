INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, ?2, ?3, ?4, d.held_by, ?5, ?6, ?7, ?8
FROM mainspring_delivery AS d
JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = ?1
