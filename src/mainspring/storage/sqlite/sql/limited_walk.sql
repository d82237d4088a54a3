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
