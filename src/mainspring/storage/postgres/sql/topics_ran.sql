-- $1 statuses, $2 now. The topics that have runs of these statuses, and the age of the oldest: from one topic to the next
-- by the index, so that it costs what there are topics, not what there are runs.
WITH RECURSIVE known (topic) AS (
    (SELECT r.topic FROM mainspring.run AS r ORDER BY r.topic LIMIT 1)
    UNION ALL
    SELECT (SELECT r.topic FROM mainspring.run AS r WHERE r.topic > known.topic ORDER BY r.topic LIMIT 1)
    FROM known
    WHERE known.topic IS NOT NULL
)
SELECT known.topic, coalesce($2::timestamptz, statement_timestamp()) - min(oldest.finished_at)
FROM known
CROSS JOIN unnest($1::text[]) AS s (status)
CROSS JOIN LATERAL (
    SELECT r.finished_at
    FROM mainspring.run AS r
    WHERE r.topic = known.topic AND r.status = s.status
    ORDER BY r.finished_at
    LIMIT 1
) AS oldest
GROUP BY known.topic
ORDER BY known.topic
