INSERT INTO mainspring_dead (
    seq, message_id, group_name, topic, key, priority, epoch, attempt, deaths, scheduled_for, published_at,
    kind, error, buried_at, schedule, manual, fingerprint
)
SELECT d.seq, d.message_id, d.group_name, m.topic, d.key, d.priority, d.epoch, d.attempt, d.deaths,
       d.scheduled_for, d.published_at, ?2, ?3, ?4, d.schedule, d.manual, ?5
FROM mainspring_delivery AS d
JOIN mainspring_message AS m ON m.id = d.message_id
WHERE d.seq = ?1
