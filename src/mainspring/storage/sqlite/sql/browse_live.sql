SELECT d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.attempt, d.deaths, d.due_at,
       d.scheduled_for, d.published_at, d.held_by, d.cancel_asked, p.said, p.at
FROM mainspring_delivery AS d
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
LEFT JOIN mainspring_progress AS p ON p.seq = d.seq AND p.epoch = d.epoch AND d.held_by IS NOT NULL
WHERE (?1 IS NULL OR d.seq < ?1)
  AND (?2 IS NULL OR d.group_name = ?2)
  AND (?3 IS NULL OR m.topic = ?3)
  AND (?4 IS NULL OR d.key = ?4)
  AND CASE ?5
        WHEN 'live' THEN 1
        WHEN 'running' THEN d.held_by IS NOT NULL
        WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= ?6
        ELSE d.held_by IS NULL AND d.due_at > ?6
      END
ORDER BY d.seq DESC
LIMIT ?7
