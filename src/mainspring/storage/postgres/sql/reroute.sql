-- $1 limit, $2 channel, $3 now, $4 after which topic, $5 how many topics, $6 how many messages to choose the oldest from. One row: how many were routed, how many topics of patterns were
-- looked at, and the last of them.
--
-- By name it is one look into the index for each subscription, however many topics are parked. Only for patterns it is a walk from topic
-- to topic, of which this is a stretch: a topic may be parked for each of a hundred thousand orders.
WITH RECURSIVE named AS MATERIALIZED (
    SELECT DISTINCT s.pattern AS name
    FROM mainspring.subscription AS s
    WHERE NOT s.wild AND EXISTS (SELECT FROM mainspring.parked AS p WHERE p.topic = s.pattern)
),
walked (name, place) AS (
    (
        SELECT p.topic, 1
        FROM mainspring.parked AS p
        WHERE p.topic > $4 AND EXISTS (SELECT FROM mainspring.subscription AS s WHERE s.wild)
        ORDER BY p.topic
        LIMIT 1
    )
    UNION ALL
    SELECT (SELECT p.topic FROM mainspring.parked AS p WHERE p.topic > walked.name ORDER BY p.topic LIMIT 1), walked.place + 1
    FROM walked
    WHERE walked.name IS NOT NULL AND walked.place < $5
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
    FROM (
        SELECT named.name FROM named
        UNION
        SELECT walked.name FROM walked WHERE walked.name IS NOT NULL
    ) AS topic
),
oldest AS MATERIALIZED (
    SELECT met.seq, met.groups
    FROM (
        SELECT p.seq, route.groups
        FROM route
        CROSS JOIN LATERAL (
            SELECT seq FROM mainspring.parked WHERE parked.topic = route.topic ORDER BY seq LIMIT $1
        ) AS p
        WHERE cardinality(route.groups) > 0
        LIMIT $6
    ) AS met
    ORDER BY met.seq
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
    SELECT count(mainspring.ring($2, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($3::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT delivered.group_name FROM delivered)
)
-- rung is named here because nothing else would have it run.
SELECT
    (SELECT count(*) FROM taken),
    (SELECT count(walked.name) FROM walked),
    (SELECT max(walked.name) FROM walked)
FROM rung
