SELECT seq, message_id, held_by IS NOT NULL, join_id FROM mainspring_delivery WHERE message_id = ?1 ORDER BY seq
