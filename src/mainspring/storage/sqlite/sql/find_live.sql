SELECT d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.attempt, d.deaths, d.due_at,
       d.scheduled_for, d.published_at, d.held_by, d.cancel_asked, p.said, p.at
FROM mainspring_delivery AS d
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
LEFT JOIN mainspring_progress AS p ON p.seq = d.seq AND p.epoch = d.epoch AND d.held_by IS NOT NULL
WHERE d.message_id = ?1
