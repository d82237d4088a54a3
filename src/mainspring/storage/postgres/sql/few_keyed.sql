-- $1 at most, $2 before, $3 of what (live, dead, parked, run), $4 topic: may be null; $5 key. One row: how many there are,
-- counted to one more than that, and their seqs. Without a topic each is asked, from one to the next by the index.
WITH RECURSIVE topics (topic) AS (
    (
        SELECT m.topic FROM mainspring.message AS m
        WHERE $4::text IS NULL AND m.key IS NOT NULL ORDER BY m.topic LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT m.topic FROM mainspring.message AS m
        WHERE m.key IS NOT NULL AND m.topic > topics.topic ORDER BY m.topic LIMIT 1
    )
    FROM topics
    WHERE topics.topic IS NOT NULL
),
named (topic) AS MATERIALIZED (
    SELECT $4::text WHERE $4 IS NOT NULL
    UNION ALL
    -- More topics than that are not asked one by one.
    (SELECT topics.topic FROM topics WHERE topics.topic IS NOT NULL LIMIT 1001)
),
messages AS MATERIALIZED (
    SELECT m.id
    FROM named
    CROSS JOIN LATERAL (
        SELECT id FROM mainspring.message WHERE topic = named.topic AND key = $5 LIMIT $1 + 1
    ) AS m
    WHERE (SELECT count(*) FROM named) <= 1000
    LIMIT $1 + 1
),
few AS MATERIALIZED (
    SELECT c.seq
    FROM messages
    CROSS JOIN LATERAL (
        SELECT d.seq FROM mainspring.delivery AS d WHERE $3::text = 'live' AND d.message_id = messages.id
        UNION ALL
        SELECT d.seq FROM mainspring.dead AS d WHERE $3::text = 'dead' AND d.message_id = messages.id
        UNION ALL
        SELECT p.seq FROM mainspring.parked AS p WHERE $3::text = 'parked' AND p.message_id = messages.id
        UNION ALL
        SELECT r.id FROM mainspring.run AS r WHERE $3::text = 'run' AND r.message_id = messages.id
    ) AS c
    LIMIT $1 + 1
)
SELECT
    CASE
        WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1
        ELSE greatest((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
    END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)
