-- ?1 message id, ?2 topic, ?3 priority, ?4 due, ?5 scheduled for, ?6 published, ?7 key.
INSERT INTO mainspring_delivery (message_id, group_name, priority, due_at, scheduled_for, published_at, key)
SELECT ?1, group_name, ?3, ?4, ?5, ?6, ?7
FROM mainspring_subscription
WHERE pattern = ?2
ORDER BY group_name
