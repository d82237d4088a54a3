SELECT p.seq, p.message_id
FROM mainspring_message AS m INDEXED BY mainspring_message_key
CROSS JOIN mainspring_parked AS p ON p.message_id = m.id
WHERE m.topic = ?1 AND m.key = ?2 AND m.key IS NOT NULL
ORDER BY p.seq
