-- ?1 hash, ?2 message id, ?3 now, ?4 until.
INSERT INTO mainspring_likeness (hash, message_id, published_at, until)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (hash) DO UPDATE SET
    message_id = excluded.message_id,
    published_at = excluded.published_at,
    until = excluded.until
