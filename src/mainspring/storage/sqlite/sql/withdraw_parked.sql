-- ?1 messages, 16 bytes each, and ?2 their groups: empty for what is parked.
SELECT DISTINCT q.seq, q.message_id
FROM json_each(?2) AS p
CROSS JOIN mainspring_parked AS q ON q.message_id = substr(?1, 16 * p.key + 1, 16) AND p.value = ''
ORDER BY q.seq
