-- ?1 seqs, ?2 limit; ?3 group, ?4 topic, ?5 key, ?6 text of the error, ?7 since, ?8 until, ?9 fingerprint, ?10 text in
-- small letters, as bytes: each may be null.
SELECT d.seq, d.message_id, d.group_name, d.topic, d.key, d.priority, d.attempt, d.deaths, d.scheduled_for,
       d.published_at, d.buried_at, d.error
FROM (SELECT value AS seq FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_dead AS d ON d.seq = s.seq
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
WHERE (?3 IS NULL OR d.group_name = ?3)
  AND (?4 IS NULL OR d.topic = ?4)
  AND (?5 IS NULL OR d.key = ?5)
  AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
  AND (?7 IS NULL OR d.published_at >= ?7)
  AND (?8 IS NULL OR d.published_at < ?8)
  AND (?9 IS NULL OR d.fingerprint = ?9)
  AND (?10 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?10))
ORDER BY s.seq DESC
LIMIT ?2
