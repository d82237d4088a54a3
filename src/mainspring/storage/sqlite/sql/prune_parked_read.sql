SELECT seq, message_id
FROM mainspring_parked
WHERE parked_at < ?1 AND (?3 IS NULL OR topic = ?3)
ORDER BY parked_at, seq
LIMIT ?2
