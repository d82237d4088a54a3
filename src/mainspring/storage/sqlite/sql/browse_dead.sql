SELECT d.seq, d.message_id, d.group_name, d.topic, d.key, d.priority, d.attempt, d.deaths, d.scheduled_for,
       d.published_at, d.buried_at, d.error
FROM mainspring_dead AS d
WHERE (?1 IS NULL OR d.seq < ?1)
  AND (?2 IS NULL OR d.group_name = ?2)
  AND (?3 IS NULL OR d.topic = ?3)
  AND (?4 IS NULL OR d.key = ?4)
  AND (?5 IS NULL OR instr(lower(d.error), lower(?5)))
ORDER BY d.seq DESC
LIMIT ?6
