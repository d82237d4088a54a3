-- A loose scan: one step into the index per topic.
WITH RECURSIVE parked(topic) AS (
    SELECT min(topic) FROM mainspring_parked
    UNION ALL
    SELECT (SELECT min(topic) FROM mainspring_parked WHERE topic > parked.topic)
    FROM parked
    WHERE parked.topic IS NOT NULL
)
SELECT topic FROM parked WHERE topic IS NOT NULL
