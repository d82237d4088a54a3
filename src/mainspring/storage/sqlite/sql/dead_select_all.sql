SELECT d.seq, d.message_id
FROM mainspring_dead AS d
WHERE (?1 IS NULL OR d.topic = ?1)
  AND (?2 IS NULL OR instr(lower(d.error), lower(?2)))
  AND (?3 IS NULL OR d.fingerprint = ?3)
ORDER BY d.seq
LIMIT ?4
