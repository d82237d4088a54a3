-- Claiming under limits: order by key, concurrency, rates.

-- name: limited_due
SELECT seq, key
FROM mainspring_delivery INDEXED BY mainspring_delivery_ready
WHERE held_by IS NULL AND group_name = ?1 AND priority = ?2 AND due_at BETWEEN ?3 AND ?4
ORDER BY due_at, seq
LIMIT ?5

-- name: limited_heads
-- ?1 group, ?2 key, ?3 ordered, ?4 whether those that wait for another attempt are skipped, ?5 how deep to look, ?6 how many,
-- ?7 now. Of the unheld, the first that are due; under an order the very first, if it is due.
SELECT seq
FROM (
    SELECT seq, due_at
    FROM (
        SELECT seq, due_at, attempt
        FROM mainspring_delivery INDEXED BY mainspring_delivery_keyed
        WHERE held_by IS NULL AND group_name = ?1 AND key = ?2
        ORDER BY seq
        LIMIT ?5
    )
    WHERE due_at <= ?7 OR (?3 AND NOT (?4 AND attempt > 0))
    ORDER BY seq
    LIMIT ?6
)
WHERE due_at <= ?7
ORDER BY seq

-- name: limited_held
SELECT key, count(*)
FROM mainspring_delivery INDEXED BY mainspring_delivery_held
WHERE held_by IS NOT NULL AND group_name = ?1
GROUP BY key

-- name: limited_keyless
-- ?1 group, ?2 level, ?3 now, ?4 how many.
SELECT seq
FROM mainspring_delivery INDEXED BY mainspring_delivery_keyless
WHERE held_by IS NULL AND key IS NULL AND group_name = ?1 AND priority = ?2 AND due_at <= ?3
ORDER BY due_at, seq
LIMIT ?4

-- name: limited_lapsed
SELECT seq, key
FROM mainspring_delivery INDEXED BY mainspring_delivery_held
WHERE held_by IS NOT NULL AND group_name = ?1 AND due_at <= ?2 AND (?4 OR (deaths = 0 AND suspect = 0))
  AND NOT (held_by = ?5 AND seq IN (SELECT value FROM json_each(?6)))
ORDER BY due_at, seq
LIMIT ?3

-- name: limited_next_keys
-- From key to key: each is one look into the index.
WITH RECURSIVE walk (key, place) AS (
    SELECT (
        SELECT first.key
        FROM mainspring_delivery AS first INDEXED BY mainspring_delivery_keyed
        WHERE first.held_by IS NULL AND first.group_name = ?1 AND first.key > ?2
        ORDER BY first.key
        LIMIT 1
    ), 1
    UNION ALL
    SELECT (
        SELECT next.key
        FROM mainspring_delivery AS next INDEXED BY mainspring_delivery_keyed
        WHERE next.held_by IS NULL AND next.group_name = ?1 AND next.key > walk.key
        ORDER BY next.key
        LIMIT 1
    ), walk.place + 1
    FROM walk
    WHERE walk.key IS NOT NULL AND walk.place < ?3
)
SELECT key FROM walk WHERE key IS NOT NULL ORDER BY place

-- name: limited_read
-- ?1 seqs, in whose order the deliveries are read.
SELECT d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key,
       m.correlation_id, m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for,
       d.published_at, m.expires_at, d.cancel_asked, d.schedule, d.suspect
FROM json_each(?1) AS chosen
CROSS JOIN mainspring_delivery AS d ON d.seq = chosen.value
CROSS JOIN mainspring_message AS m ON m.id = d.message_id
ORDER BY chosen.key

-- name: limited_retire
DELETE FROM mainspring_spent WHERE group_name = ?1

-- name: limited_spend
INSERT INTO mainspring_spent (group_name, key, until, claims)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (group_name, key, until) DO UPDATE SET claims = claims + excluded.claims

-- name: limited_spent
SELECT key, until, claims
FROM mainspring_spent
WHERE group_name = ?1 AND key IN (SELECT value FROM json_each(?2)) AND until > ?3

-- name: prune_spent
DELETE FROM mainspring_spent
WHERE (group_name, key, until) IN (
    SELECT group_name, key, until FROM mainspring_spent WHERE until <= ?1 ORDER BY until LIMIT ?2
)
