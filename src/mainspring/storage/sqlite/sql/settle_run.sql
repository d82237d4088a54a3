INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    schedule, source, scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, ?2, ?3, ?4, ?9, ?5, ?6, ?7, ?8,
       d.schedule,
       CASE
           WHEN d.manual THEN 'manual'
           WHEN d.schedule IS NOT NULL THEN 'schedule'
           WHEN d.scheduled_for > d.published_at THEN 'deferred'
           ELSE 'message'
       END,
       d.scheduled_for
FROM mainspring_delivery AS d
JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = ?1
