-- Topics, for retention by topic.

-- name: prune_parked
-- $1 how long they are kept, $2 limit, $3 now, $4 topic or null. One row: how many parked messages were given up.
WITH everywhere AS MATERIALIZED (
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE $4::text IS NULL AND p.parked_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY p.parked_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
-- Written twice, since one condition for both would be answered by one index for both.
there AS MATERIALIZED (
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE p.topic = $4 AND p.parked_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY p.parked_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.parked
    WHERE seq = ANY (ARRAY(TABLE everywhere UNION ALL TABLE there))
    RETURNING seq, message_id, topic, scheduled_for, published_at, schedule, manual
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
    )
    SELECT
        removed.message_id, '', removed.topic, 0, 'cancelled', coalesce($3::timestamptz, statement_timestamp()),
        coalesce($3::timestamptz, statement_timestamp()), 'no group subscribed to its topic in time',
        removed.schedule,
        CASE
            WHEN removed.manual THEN 'manual'
            WHEN removed.schedule IS NOT NULL THEN 'schedule'
            WHEN removed.scheduled_for > removed.published_at THEN 'deferred'
            ELSE 'message'
        END,
        removed.scheduled_for
    FROM removed
    ORDER BY removed.seq
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($3::timestamptz, statement_timestamp()), count(*), false, array_agg(removed.message_id)
    FROM removed
    HAVING count(*) > 0
),
counted AS (
    INSERT INTO mainspring.counter AS c (name, value)
    SELECT 'expired_parked', count(*)
    FROM removed
    HAVING count(*) > 0
    ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value
)
SELECT count(*) FROM removed

-- name: topics_dead
-- $1 now, $2 after which topic, $3 how many. The topics that have dead letters, and the age of the oldest: from one topic to the next by
-- the index.
WITH RECURSIVE known (topic, place) AS (
    (SELECT r.topic, 1 FROM mainspring.dead AS r WHERE r.topic > $2 ORDER BY r.topic LIMIT 1)
    UNION ALL
    SELECT (SELECT r.topic FROM mainspring.dead AS r WHERE r.topic > known.topic ORDER BY r.topic LIMIT 1), known.place + 1
    FROM known
    WHERE known.topic IS NOT NULL AND known.place < $3
)
SELECT known.topic, coalesce($1::timestamptz, statement_timestamp()) - oldest.buried_at
FROM known
LEFT JOIN LATERAL (
    SELECT r.buried_at FROM mainspring.dead AS r WHERE r.topic = known.topic ORDER BY r.buried_at LIMIT 1
) AS oldest ON true
WHERE known.topic IS NOT NULL
ORDER BY known.topic

-- name: topics_parked
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

-- name: topics_ran
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
