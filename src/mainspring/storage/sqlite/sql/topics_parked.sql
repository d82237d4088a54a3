-- From one topic to the next by the index.
WITH RECURSIVE known(topic) AS (
    SELECT min(topic) FROM mainspring_parked
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_parked AS r WHERE r.topic > known.topic) FROM known WHERE topic IS NOT NULL
)
SELECT topic, (SELECT min(r.parked_at) FROM mainspring_parked AS r WHERE r.topic = known.topic)
FROM known
WHERE topic IS NOT NULL
