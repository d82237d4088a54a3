SELECT d.seq, d.message_id, d.held_by IS NOT NULL, d.join_id
FROM mainspring_message AS m INDEXED BY mainspring_message_key
CROSS JOIN mainspring_delivery AS d ON d.message_id = m.id
WHERE m.topic = ?1 AND m.key = ?2 AND m.key IS NOT NULL
ORDER BY d.seq
