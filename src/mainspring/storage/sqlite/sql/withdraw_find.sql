-- ?1 messages, 16 bytes each, and ?2 their groups.
SELECT DISTINCT d.seq, d.message_id, d.held_by IS NOT NULL, d.join_id
FROM json_each(?2) AS p
CROSS JOIN mainspring_delivery AS d ON d.message_id = substr(?1, 16 * p.key + 1, 16) AND d.group_name = p.value
ORDER BY d.seq
