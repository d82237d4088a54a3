-- From one topic to the next by the index. ?1 is the statuses.
WITH RECURSIVE known(topic) AS (
    SELECT min(topic) FROM mainspring_run
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_run AS r WHERE r.topic > known.topic) FROM known WHERE topic IS NOT NULL
)
SELECT topic, oldest
FROM (
    SELECT
        known.topic AS topic,
        min(
            (SELECT min(r.finished_at) FROM mainspring_run AS r WHERE r.topic = known.topic AND r.status = s.value)
        ) AS oldest
    FROM known, json_each(?1) AS s
    WHERE known.topic IS NOT NULL
    GROUP BY known.topic
)
WHERE oldest IS NOT NULL
