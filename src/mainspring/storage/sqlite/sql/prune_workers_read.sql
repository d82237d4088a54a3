SELECT name FROM mainspring_worker WHERE beat_at < ?1 ORDER BY beat_at, name LIMIT ?2
