SELECT seq, message_id, topic, key, priority, due_at, scheduled_for, published_at, schedule, manual
FROM mainspring_parked
WHERE topic = ?1
ORDER BY seq
LIMIT ?2
