SELECT seq, message_id
FROM mainspring_dead
WHERE buried_at < ?1 AND (?3 IS NULL OR topic = ?3)
ORDER BY buried_at, seq
LIMIT ?2
