SELECT d.seq, d.message_id, d.group_name, d.topic, d.key, d.priority, d.attempt, d.deaths, d.scheduled_for,
       d.published_at, d.buried_at, d.error
FROM mainspring_dead AS d
WHERE d.message_id = ?1
