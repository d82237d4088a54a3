-- $1 now. The topics that have parked messages, and the age of the oldest: from one topic to the next by the index.
WITH RECURSIVE known (topic) AS (
    (SELECT r.topic FROM mainspring.parked AS r ORDER BY r.topic LIMIT 1)
    UNION ALL
    SELECT (SELECT r.topic FROM mainspring.parked AS r WHERE r.topic > known.topic ORDER BY r.topic LIMIT 1)
    FROM known
    WHERE known.topic IS NOT NULL
)
SELECT known.topic, coalesce($1::timestamptz, statement_timestamp()) - oldest.parked_at
FROM known
CROSS JOIN LATERAL (
    SELECT r.parked_at FROM mainspring.parked AS r WHERE r.topic = known.topic ORDER BY r.parked_at LIMIT 1
) AS oldest
ORDER BY known.topic
