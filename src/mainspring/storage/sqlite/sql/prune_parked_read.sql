SELECT seq, message_id FROM mainspring_parked WHERE parked_at < ?1 ORDER BY parked_at, seq LIMIT ?2
