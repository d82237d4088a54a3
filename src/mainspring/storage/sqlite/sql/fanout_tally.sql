-- ?1 topic, ?2 work: each may be null. Columns in the order of model.fanout.CursorTally.
SELECT
    c.topic,
    c.work,
    count(*),
    latest.planned,
    coalesce(sum(c.completed >= latest.planned), 0),
    coalesce(sum(c.planned IS NOT NULL AND (c.completed IS NULL OR c.completed < c.planned)), 0),
    min(c.completed)
FROM (
    SELECT topic, work, max(planned) AS planned
    FROM mainspring_fanout_cursor
    WHERE (?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR work = ?2)
    GROUP BY topic, work
) AS latest
JOIN mainspring_fanout_cursor AS c ON c.topic = latest.topic AND c.work = latest.work
GROUP BY c.topic, c.work
ORDER BY c.topic, c.work
