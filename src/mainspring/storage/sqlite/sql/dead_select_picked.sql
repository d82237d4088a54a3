-- ?1 messages, 16 bytes each, and ?2 their groups; ?3 message id, ?4 group, ?5 topic, ?6 text of the error, ?7 fingerprint: each
-- of these may be null; ?8 limit.
SELECT DISTINCT d.seq, d.message_id
FROM json_each(?2) AS p
CROSS JOIN mainspring_dead AS d ON d.message_id = substr(?1, 16 * p.key + 1, 16) AND d.group_name = p.value
WHERE (?3 IS NULL OR d.message_id = ?3)
  AND (?4 IS NULL OR d.group_name = ?4)
  AND (?5 IS NULL OR d.topic = ?5)
  AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
  AND (?7 IS NULL OR d.fingerprint = ?7)
ORDER BY d.seq
LIMIT ?8
