-- Unique publishing.

-- name: likeness_enter
-- ?1 hash, ?2 message id, ?3 now, ?4 until.
INSERT INTO mainspring_likeness (hash, message_id, published_at, until)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (hash) DO UPDATE SET
    message_id = excluded.message_id,
    published_at = excluded.published_at,
    until = excluded.until

-- name: likeness_extend
UPDATE mainspring_likeness SET until = published_at + ?2 WHERE hash = ?1 AND until < published_at + ?2

-- name: likeness_free
-- ?1 message id. Its copies that no worker has taken, as cancel_find_id.sql tells them.
SELECT seq, message_id, 0, join_id FROM mainspring_delivery WHERE message_id = ?1 AND epoch = 0 ORDER BY seq

-- name: likeness_look
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

-- name: prune_likenesses
-- ?1 now, ?2 limit. Of the first ones to be looked at those whose message is over.
DELETE FROM mainspring_likeness
WHERE hash IN (SELECT hash FROM mainspring_likeness WHERE until < ?1 ORDER BY until, hash LIMIT ?2)
  AND NOT EXISTS (SELECT 1 FROM mainspring_delivery AS d WHERE d.message_id = mainspring_likeness.message_id)
  AND NOT EXISTS (SELECT 1 FROM mainspring_parked AS p WHERE p.message_id = mainspring_likeness.message_id)

-- name: prune_likenesses_later
-- ?1 now, ?2 how many of the first ones are left, ?3 when to look at them again. Those that are needed make room for the
-- others: a batch is never all of what waits for a year.
UPDATE mainspring_likeness
SET until = ?3
WHERE hash IN (SELECT hash FROM mainspring_likeness WHERE until < ?1 ORDER BY until, hash LIMIT ?2)
