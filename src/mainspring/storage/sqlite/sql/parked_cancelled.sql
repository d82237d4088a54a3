INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
)
SELECT p.message_id, '', p.topic, 0, 'cancelled', ?2, ?2, ?3,
       p.schedule,
       CASE
           WHEN p.manual THEN 'manual'
           WHEN p.schedule IS NOT NULL THEN 'schedule'
           WHEN p.scheduled_for > p.published_at THEN 'deferred'
           ELSE 'message'
       END,
       p.scheduled_for
FROM json_each(?1) AS dropped
CROSS JOIN mainspring_parked AS p ON p.seq = dropped.value
