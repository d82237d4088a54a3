-- ?1 hash, ?2 id of the new message. One row: whether that id is known; of the last message of this likeness its id and
-- when it was published, both null where there is none; whether it is parked; how many of its copies are left, how many
-- of them have begun, and how many there were.
SELECT
    EXISTS (SELECT 1 FROM mainspring_message WHERE id = ?2),
    l.message_id,
    l.published_at,
    EXISTS (SELECT 1 FROM mainspring_parked WHERE message_id = l.message_id),
    (SELECT count(*) FROM mainspring_delivery WHERE message_id = l.message_id),
    (SELECT count(*) FROM mainspring_delivery WHERE message_id = l.message_id AND epoch > 0),
    (SELECT copies FROM mainspring_message WHERE id = l.message_id)
FROM (SELECT 1) AS one
LEFT JOIN mainspring_likeness AS l ON l.hash = ?1
