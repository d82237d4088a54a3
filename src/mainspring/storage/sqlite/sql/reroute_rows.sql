SELECT message_id, topic, key, priority, due_at, scheduled_for, published_at, schedule, manual
FROM mainspring_parked
WHERE seq IN (SELECT value FROM json_each(?1))
ORDER BY seq
