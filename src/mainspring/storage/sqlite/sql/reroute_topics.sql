-- A loose scan: one step into the index per topic. ?1 after which topic, ?2 how many.
WITH RECURSIVE parked(topic, place) AS (
    SELECT (SELECT min(topic) FROM mainspring_parked WHERE topic > ?1), 1
    WHERE EXISTS (SELECT 1 FROM mainspring_subscription WHERE wild)
    UNION ALL
    SELECT (SELECT min(topic) FROM mainspring_parked WHERE topic > parked.topic), place + 1
    FROM parked
    WHERE parked.topic IS NOT NULL AND place < ?2
)
SELECT topic FROM parked WHERE topic IS NOT NULL
