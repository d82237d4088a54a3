SELECT d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.attempt, d.deaths, d.due_at,
       d.scheduled_for, d.published_at, d.held_by, d.cancel_asked, p.said, p.at
FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_join
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
LEFT JOIN mainspring_progress AS p ON p.seq = d.seq AND p.epoch = d.epoch AND d.held_by IS NOT NULL
WHERE d.join_id = ?1 AND d.seq > ?2
ORDER BY d.seq
LIMIT ?3
