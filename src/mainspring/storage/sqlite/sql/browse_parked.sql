SELECT p.seq, p.message_id, p.topic, p.key, p.priority, p.due_at, p.scheduled_for, p.published_at
FROM mainspring_parked AS p
WHERE (?1 IS NULL OR p.seq < ?1)
  AND (?2 IS NULL OR p.topic = ?2)
  AND (?3 IS NULL OR p.key = ?3)
ORDER BY p.seq DESC
LIMIT ?4
