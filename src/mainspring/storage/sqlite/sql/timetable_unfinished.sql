-- ?1 schedules, ?2 whether only those that wait. The messages of which deliveries are unfinished, oldest first.
SELECT d.message_id
FROM json_each(?1) AS stopped
CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_schedule ON d.schedule = stopped.value
WHERE NOT ?2 OR d.due_at = 253402214400000000
GROUP BY d.message_id
ORDER BY min(d.seq)
LIMIT 1000
