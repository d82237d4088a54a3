-- $1 group, $2 the key after which to begin, $3 how many. The next keys that have deliveries, each found by one look into
-- the index. Compared as rows: nothing but the index by key has this order, whatever the planner believes.
WITH RECURSIVE walk (key, place) AS (
    SELECT first.key, 1
    FROM (
        SELECT group_name, key
        FROM mainspring.delivery
        WHERE (group_name, key) > ($1, $2) AND num_nulls(held_by) = 1 AND key IS NOT NULL
        ORDER BY group_name, key, seq
        LIMIT 1
    ) AS first
    WHERE first.group_name = $1
    UNION ALL
    SELECT next.key, walk.place + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT group_name, key
        FROM mainspring.delivery
        WHERE (group_name, key) > ($1, walk.key) AND num_nulls(held_by) = 1 AND key IS NOT NULL
        ORDER BY group_name, key, seq
        LIMIT 1
    ) AS next
    WHERE walk.place < $3 AND next.group_name = $1
)
SELECT walk.key FROM walk ORDER BY walk.place
