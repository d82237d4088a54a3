-- Answers a row if nobody has let it in before.
INSERT INTO mainspring_inbox (
    message_id, source, group_name, status, attempts, first_seen_at, changed_at, hash
)
VALUES (?3, ?2, ?1, ?4, 1, ?5, ?5, ?6)
ON CONFLICT (message_id, source, group_name) DO NOTHING
RETURNING attempts
