SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE d.message_id = ?1
  AND (?2 IS NULL OR d.group_name = ?2)
  AND (?3 IS NULL OR d.topic = ?3)
  AND (?4 IS NULL OR instr(lower(d.error), lower(?4)))
  AND (?5 IS NULL OR d.fingerprint = ?5)
ORDER BY d.seq
LIMIT ?6
