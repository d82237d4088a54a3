SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule
FROM mainspring_delivery AS d
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.message_id = ?1 AND d.group_name = ?2 AND d.held_by IS NULL
