-- $1 now, $2 after which topic, $3 how many. The topics that have parked messages, and the age of the oldest: from one topic to the next by
-- the index.
WITH RECURSIVE known (topic, place) AS (
    (SELECT r.topic, 1 FROM mainspring.parked AS r WHERE r.topic > $2 ORDER BY r.topic LIMIT 1)
    UNION ALL
    SELECT (SELECT r.topic FROM mainspring.parked AS r WHERE r.topic > known.topic ORDER BY r.topic LIMIT 1), known.place + 1
    FROM known
    WHERE known.topic IS NOT NULL AND known.place < $3
)
SELECT known.topic, coalesce($1::timestamptz, statement_timestamp()) - oldest.parked_at
FROM known
LEFT JOIN LATERAL (
    SELECT r.parked_at FROM mainspring.parked AS r WHERE r.topic = known.topic ORDER BY r.parked_at LIMIT 1
) AS oldest ON true
WHERE known.topic IS NOT NULL
ORDER BY known.topic
