-- epoch never goes back: it is the fence (invariant 2). A revival opens a new one, as a claim does.
INSERT INTO mainspring_delivery (
    seq, message_id, group_name, priority, due_at, epoch, scheduled_for, published_at, key, schedule, manual
)
SELECT d.seq, d.message_id, d.group_name, d.priority, ?2, d.epoch + 1, d.scheduled_for, d.published_at, d.key,
       d.schedule, d.manual
FROM json_each(?1) AS chosen
CROSS JOIN mainspring_dead AS d ON d.seq = chosen.value
