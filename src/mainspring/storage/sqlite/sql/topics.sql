-- Topics, for retention by topic.

-- name: prune_parked_count
UPDATE mainspring_counter SET value = value + ?1 WHERE name = 'expired_parked'

-- name: prune_parked_of
SELECT seq, message_id FROM mainspring_parked WHERE topic = ?3 AND parked_at < ?1 ORDER BY parked_at, seq LIMIT ?2

-- name: prune_parked_read
SELECT seq, message_id FROM mainspring_parked WHERE parked_at < ?1 ORDER BY parked_at, seq LIMIT ?2

-- name: topics_dead
-- From one topic to the next by the index. ?1 after which topic, ?2 how many.
WITH RECURSIVE known(topic, place) AS (
    SELECT (SELECT min(r.topic) FROM mainspring_dead AS r WHERE r.topic > ?1), 1
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_dead AS r WHERE r.topic > known.topic), place + 1
    FROM known
    WHERE topic IS NOT NULL AND place < ?2
)
SELECT topic, (SELECT min(r.buried_at) FROM mainspring_dead AS r WHERE r.topic = known.topic)
FROM known
WHERE topic IS NOT NULL

-- name: topics_parked
-- From one topic to the next by the index. ?1 after which topic, ?2 how many.
WITH RECURSIVE known(topic, place) AS (
    SELECT (SELECT min(r.topic) FROM mainspring_parked AS r WHERE r.topic > ?1), 1
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_parked AS r WHERE r.topic > known.topic), place + 1
    FROM known
    WHERE topic IS NOT NULL AND place < ?2
)
SELECT topic, (SELECT min(r.parked_at) FROM mainspring_parked AS r WHERE r.topic = known.topic)
FROM known
WHERE topic IS NOT NULL

-- name: topics_ran
-- From one topic to the next by the index. ?1 is the statuses, ?2 after which topic, ?3 how many.
WITH RECURSIVE known(topic, place) AS (
    SELECT (SELECT min(r.topic) FROM mainspring_run AS r WHERE r.topic > ?2), 1
    UNION ALL
    SELECT (SELECT min(r.topic) FROM mainspring_run AS r WHERE r.topic > known.topic), place + 1
    FROM known
    WHERE topic IS NOT NULL AND place < ?3
)
SELECT
    known.topic,
    min((SELECT min(r.finished_at) FROM mainspring_run AS r WHERE r.topic = known.topic AND r.status = s.value))
FROM known, json_each(?1) AS s
WHERE known.topic IS NOT NULL
GROUP BY known.topic
ORDER BY known.topic
