-- $1 statuses, $2 now, $3 after which topic, $4 how many. The topics that have runs, and the age of the oldest of these statuses, null where
-- there is none: from one topic to the next by the index, so that it costs what there are topics, not what there are runs.
WITH RECURSIVE known (topic, place) AS (
    (SELECT r.topic, 1 FROM mainspring.run AS r WHERE r.topic > $3 ORDER BY r.topic LIMIT 1)
    UNION ALL
    SELECT (SELECT r.topic FROM mainspring.run AS r WHERE r.topic > known.topic ORDER BY r.topic LIMIT 1), known.place + 1
    FROM known
    WHERE known.topic IS NOT NULL AND known.place < $4
)
SELECT known.topic, coalesce($2::timestamptz, statement_timestamp()) - min(oldest.finished_at)
FROM known
CROSS JOIN unnest($1::text[]) AS s (status)
LEFT JOIN LATERAL (
    SELECT r.finished_at
    FROM mainspring.run AS r
    WHERE r.topic = known.topic AND r.status = s.status
    ORDER BY r.finished_at
    LIMIT 1
) AS oldest ON true
WHERE known.topic IS NOT NULL
GROUP BY known.topic
ORDER BY known.topic
