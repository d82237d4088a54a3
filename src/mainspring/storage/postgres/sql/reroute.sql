-- $1 limit, $2 channel, $3 now. One row: how many were routed.
--
-- Topics are few and parked messages may be many: hop from topic to topic, match each topic once.
WITH RECURSIVE topic (name) AS (
    (SELECT p.topic FROM mainspring.parked AS p ORDER BY p.topic LIMIT 1)
    UNION ALL
    SELECT (SELECT p.topic FROM mainspring.parked AS p WHERE p.topic > topic.name ORDER BY p.topic LIMIT 1)
    FROM topic
    WHERE topic.name IS NOT NULL
),
route AS MATERIALIZED (
    SELECT
        topic.name AS topic,
        ARRAY(
            SELECT s.group_name FROM mainspring.subscription AS s WHERE s.pattern = topic.name AND NOT s.wild
            UNION
            SELECT s.group_name FROM mainspring.subscription AS s
            WHERE s.wild AND starts_with(topic.name, s.head) AND topic.name ~ s.matcher
            ORDER BY 1
        ) AS groups
    FROM topic
    WHERE topic.name IS NOT NULL
),
oldest AS MATERIALIZED (
    SELECT p.seq, route.groups
    FROM route
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.parked WHERE parked.topic = route.topic ORDER BY seq LIMIT $1
    ) AS p
    WHERE cardinality(route.groups) > 0
    ORDER BY p.seq
    LIMIT $1
),
taken AS MATERIALIZED (
    SELECT p.*
    FROM mainspring.parked AS p
    WHERE p.seq = ANY (ARRAY(SELECT oldest.seq FROM oldest))
    ORDER BY p.seq
    FOR UPDATE SKIP LOCKED
),
unparked AS (
    DELETE FROM mainspring.parked WHERE seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
delivered AS (
    INSERT INTO mainspring.delivery (
        message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual
    )
    SELECT
        taken.message_id, receiver.name, taken.priority,
        greatest(taken.due_at, coalesce($3::timestamptz, statement_timestamp())), taken.scheduled_for,
        taken.published_at, taken.key, taken.schedule, taken.manual
    FROM taken JOIN oldest ON oldest.seq = taken.seq, unnest(oldest.groups) WITH ORDINALITY AS receiver (name, position)
    ORDER BY taken.seq, receiver.position
    ON CONFLICT (message_id, group_name) DO NOTHING
    RETURNING group_name
),
rung AS MATERIALIZED (
    SELECT count(pg_notify($2, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($3::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT delivered.group_name FROM delivered)
)
-- rung is named here because nothing else would have it run.
SELECT (SELECT count(*) FROM taken)
FROM rung
