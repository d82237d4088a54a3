-- From one topic to the next by the index. ?1 after which topic, ?2 how many.
WITH RECURSIVE known(topic, place) AS (
    SELECT (SELECT min(r.topic) FROM mainspring_dead AS r WHERE r.topic > ?1), 1
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_dead AS r WHERE r.topic > known.topic), place + 1
    FROM known
    WHERE topic IS NOT NULL AND place < ?2
)
SELECT topic, (SELECT min(r.buried_at) FROM mainspring_dead AS r WHERE r.topic = known.topic)
FROM known
WHERE topic IS NOT NULL
