-- CROSS JOIN keeps the order: the index gives the deliveries as they are due, each looks up its one message.
SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule
FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.held_by IS NULL AND d.group_name = ?1 AND d.priority = ?2 AND d.due_at BETWEEN ?3 AND ?4
ORDER BY d.due_at, d.seq
LIMIT ?5
