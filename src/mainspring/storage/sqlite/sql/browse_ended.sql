-- ?1 ids, ?2 limit; ?3 status, ?4 group, ?5 topic, ?6 text of the error, ?7 key, ?8 since, ?9 until, ?10 text in small
-- letters, as bytes: each but the status may be null. A run does not remember its delivery's times: the message's own
-- stands in for them.
SELECT r.id, r.message_id, r.group_name, r.topic, m.key, r.attempt, m.published_at, r.error
FROM (SELECT value AS id FROM json_each(?1) ORDER BY value DESC) AS s
CROSS JOIN mainspring_run AS r ON r.id = s.id
CROSS JOIN mainspring_message AS m ON m.id = r.message_id
WHERE r.status = ?3
  AND (?4 IS NULL OR r.group_name = ?4)
  AND (?5 IS NULL OR r.topic = ?5)
  AND (?6 IS NULL OR instr(lower(coalesce(r.error, '')), lower(?6)))
  AND (?7 IS NULL OR m.key = ?7)
  AND (?8 IS NULL OR m.published_at >= ?8)
  AND (?9 IS NULL OR m.published_at < ?9)
  AND (?10 IS NULL OR instr(CAST(lower(CAST(m.payload AS text)) AS blob), ?10))
ORDER BY s.id DESC
LIMIT ?2
