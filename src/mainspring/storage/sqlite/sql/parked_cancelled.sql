INSERT INTO mainspring_run (message_id, group_name, topic, attempt, status, started_at, finished_at, error)
SELECT p.message_id, '', p.topic, 0, 'cancelled', ?2, ?2, ?3
FROM json_each(?1) AS dropped
CROSS JOIN mainspring_parked AS p ON p.seq = dropped.value
