SELECT seq, message_id FROM mainspring_dead WHERE topic = ?3 AND buried_at < ?1 ORDER BY buried_at, seq LIMIT ?2
