SELECT seq, message_id, held_by IS NOT NULL FROM mainspring_delivery WHERE message_id = ?1 ORDER BY seq
