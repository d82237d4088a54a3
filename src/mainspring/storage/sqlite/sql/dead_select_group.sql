SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE d.group_name = ?1
  AND (?2 IS NULL OR d.topic = ?2)
  AND (?3 IS NULL OR instr(lower(d.error), lower(?3)))
  AND (?4 IS NULL OR d.fingerprint = ?4)
ORDER BY d.seq
LIMIT ?5
