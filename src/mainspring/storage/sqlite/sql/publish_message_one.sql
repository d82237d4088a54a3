-- Whether the id is known has been asked, under the write lock.
INSERT INTO mainspring_message (
    id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
