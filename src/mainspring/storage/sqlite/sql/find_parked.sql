SELECT p.seq, p.message_id, p.topic, p.key, p.priority, p.due_at, p.scheduled_for, p.published_at
FROM mainspring_parked AS p
WHERE p.message_id = ?1
