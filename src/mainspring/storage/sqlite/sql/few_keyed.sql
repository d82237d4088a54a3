-- ?1 at most, ?2 before, ?3 of what (live, dead, parked, run), ?4 topic: may be null; ?5 key. One row: how many there are,
-- counted to one more than that, and their seqs. Without a topic each is asked, from one to the next by the index.
WITH RECURSIVE
topics(topic) AS (
    SELECT min(topic) FROM mainspring_message WHERE key IS NOT NULL AND ?4 IS NULL
    UNION ALL
    SELECT (SELECT min(topic) FROM mainspring_message WHERE key IS NOT NULL AND topic > topics.topic)
    FROM topics
    WHERE topics.topic IS NOT NULL
    -- More topics than that are not asked one by one.
    LIMIT 1001
),
named(topic) AS (
    SELECT ?4 WHERE ?4 IS NOT NULL
    UNION ALL
    SELECT topic FROM topics WHERE topic IS NOT NULL
),
messages(id) AS (
    SELECT m.id
    FROM (SELECT topic FROM named LIMIT 1001) AS named  -- written out, see few_live
    CROSS JOIN mainspring_message AS m INDEXED BY mainspring_message_key
    WHERE m.topic = named.topic AND m.key = ?5 AND m.key IS NOT NULL AND (SELECT count(*) FROM named) <= 1000
    LIMIT ?1 + 1
),
few(seq) AS (
    SELECT d.seq FROM messages CROSS JOIN mainspring_delivery AS d ON d.message_id = messages.id WHERE ?3 = 'live'
    UNION ALL
    SELECT d.seq FROM messages CROSS JOIN mainspring_dead AS d ON d.message_id = messages.id WHERE ?3 = 'dead'
    UNION ALL
    SELECT p.seq FROM messages CROSS JOIN mainspring_parked AS p ON p.message_id = messages.id WHERE ?3 = 'parked'
    UNION ALL
    SELECT r.id FROM messages CROSS JOIN mainspring_run AS r ON r.message_id = messages.id WHERE ?3 = 'run'
    LIMIT ?1 + 1
)
SELECT CASE
           WHEN (SELECT count(*) FROM named) > 1000 THEN ?1 + 1
           ELSE max((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
       END,
       (SELECT json_group_array(seq) FROM few WHERE seq < ?2)
