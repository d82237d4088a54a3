-- $1 topic, $2 work: each may be null. Columns in the order of model.fanout.CursorTally.
WITH latest AS MATERIALIZED (
    SELECT c.topic, c.work, max(c.planned) AS planned
    FROM mainspring.fanout_cursor AS c
    WHERE ($1::text IS NULL OR c.topic = $1) AND ($2::text IS NULL OR c.work = $2)
    GROUP BY c.topic, c.work
)
SELECT
    latest.topic,
    latest.work,
    count(*),
    latest.planned,
    count(*) FILTER (WHERE c.completed >= latest.planned),
    count(*) FILTER (WHERE c.planned IS NOT NULL AND (c.completed IS NULL OR c.completed < c.planned)),
    min(c.completed)
FROM latest
JOIN mainspring.fanout_cursor AS c ON c.topic = latest.topic AND c.work = latest.work
GROUP BY latest.topic, latest.work, latest.planned
ORDER BY latest.topic, latest.work
