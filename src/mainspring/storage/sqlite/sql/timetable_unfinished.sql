-- ?1 schedules, ?2 whether those that have begun too, ?3 whether those that somebody asked for by hand too. Their deliveries,
-- as cancel_find_id.sql answers those of a message.
SELECT d.seq, d.message_id, d.held_by IS NOT NULL, d.join_id
FROM json_each(?1) AS stopped
CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_schedule ON d.schedule = stopped.value
WHERE (?2 OR d.epoch = 0) AND (?3 OR NOT d.manual)
ORDER BY d.seq
