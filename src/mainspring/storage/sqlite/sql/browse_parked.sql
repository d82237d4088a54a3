-- ?1 seqs, ?2 limit; ?3 topic, ?4 key, ?5 since, ?6 until, ?7 text in small letters, as bytes: each may be null.
SELECT p.seq, p.message_id, p.topic, p.key, p.priority, p.due_at, p.scheduled_for, p.published_at
FROM (SELECT value AS seq FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_parked AS p ON p.seq = s.seq
CROSS JOIN mainspring_message AS m ON m.id = p.message_id
WHERE (?3 IS NULL OR p.topic = ?3)
  AND (?4 IS NULL OR p.key = ?4)
  AND (?5 IS NULL OR p.published_at >= ?5)
  AND (?6 IS NULL OR p.published_at < ?6)
  AND (?7 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?7))
ORDER BY s.seq DESC
LIMIT ?2
