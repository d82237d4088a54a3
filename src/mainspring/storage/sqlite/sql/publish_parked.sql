INSERT INTO mainspring_parked (
    message_id, topic, key, priority, due_at, scheduled_for, published_at, parked_at, schedule, manual
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
