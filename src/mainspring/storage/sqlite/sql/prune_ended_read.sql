SELECT id, at, second, message_ids FROM mainspring_ended WHERE at < ?1 ORDER BY at, id LIMIT ?2 OFFSET ?3
