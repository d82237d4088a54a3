SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule, d.suspect
FROM json_each(?1) AS served
CROSS JOIN mainspring_delivery AS d
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = (
        SELECT lapsed.seq
        FROM mainspring_delivery AS lapsed INDEXED BY mainspring_delivery_held
        WHERE lapsed.held_by IS NOT NULL AND lapsed.group_name = served.value AND lapsed.due_at <= ?2
          AND (?3 OR (lapsed.deaths = 0 AND lapsed.suspect = 0))
          AND NOT (lapsed.held_by = ?4 AND lapsed.seq IN (SELECT value FROM json_each(?5)))
        ORDER BY lapsed.due_at, lapsed.seq
        LIMIT 1
    )
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_groups AS g WHERE g.name = served.value AND g.paused_at IS NOT NULL
    )
ORDER BY d.due_at, d.seq
LIMIT 1
