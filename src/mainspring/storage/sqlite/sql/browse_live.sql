-- ?1 seqs, ?2 limit; ?3 state, ?4 group, ?5 key, ?6 held by, ?7 since, ?8 until, ?9 topic, ?10 text in small letters,
-- as bytes: each but the state may be null; ?11 now.
SELECT d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.attempt, d.deaths, d.due_at,
       d.scheduled_for, d.published_at, d.held_by, d.cancel_asked, p.said, p.at
FROM (SELECT value AS seq FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_delivery AS d ON d.seq = s.seq
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
LEFT JOIN mainspring_progress AS p ON p.seq = d.seq AND p.epoch = d.epoch AND d.held_by IS NOT NULL
WHERE CASE ?3
        WHEN 'live' THEN 1
        WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > ?11
        WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= ?11
        WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
        WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= ?11
        ELSE d.held_by IS NULL AND d.due_at > ?11
      END
  AND (?4 IS NULL OR d.group_name = ?4)
  AND (?5 IS NULL OR d.key = ?5)
  AND (?6 IS NULL OR d.held_by = ?6 OR substr(d.held_by, 1, length(d.held_by) - 16) = ?6 || '~')
  AND (?7 IS NULL OR d.published_at >= ?7)
  AND (?8 IS NULL OR d.published_at < ?8)
  AND (?9 IS NULL OR m.topic = ?9)
  AND (?10 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?10))
ORDER BY s.seq DESC
LIMIT ?2
