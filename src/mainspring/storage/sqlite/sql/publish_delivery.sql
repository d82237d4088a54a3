INSERT INTO mainspring_delivery (
    message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual, join_id
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
