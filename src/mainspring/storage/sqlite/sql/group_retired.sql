-- Unlike a cancelled one, a retired delivery may be in somebody's hands: the run says whose.
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, error, schedule, source,
    scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, 'cancelled', ?2, ?2,
       -- Its name, without the token of its start.
       CASE WHEN substr(d.held_by, -17, 1) = '~' THEN substr(d.held_by, 1, length(d.held_by) - 17) ELSE d.held_by END, ?3,
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
