-- From one topic to the next by the index. ?1 is the statuses, ?2 after which topic, ?3 how many.
WITH RECURSIVE known(topic, place) AS (
    SELECT (SELECT min(r.topic) FROM mainspring_run AS r WHERE r.topic > ?2), 1
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_run AS r WHERE r.topic > known.topic), place + 1
    FROM known
    WHERE topic IS NOT NULL AND place < ?3
)
SELECT
    known.topic,
    min((SELECT min(r.finished_at) FROM mainspring_run AS r WHERE r.topic = known.topic AND r.status = s.value))
FROM known, json_each(?1) AS s
WHERE known.topic IS NOT NULL
GROUP BY known.topic
ORDER BY known.topic
