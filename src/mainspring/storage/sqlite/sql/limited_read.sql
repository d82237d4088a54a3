-- ?1 seqs, in whose order the deliveries are read.
SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule, d.suspect
FROM json_each(?1) AS chosen
CROSS JOIN mainspring_delivery AS d ON d.seq = chosen.value
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
ORDER BY chosen.key
