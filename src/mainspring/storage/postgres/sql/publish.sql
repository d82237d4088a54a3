-- $1 ids, $2 topics, $3 payloads, $4 content types, $5 headers, $6 keys, $7 groups, $8 priorities, $9 delays,
-- $10 instants, $11 times to live, $12 expiries, $13 correlations, $14 causations, $15 channel, $16 now.
-- Arrays run side by side, one draft per place; one that nobody filled may be empty. Answers the ids stored now.
WITH draft AS MATERIALIZED (
    SELECT
        d.*,
        clock.now,
        coalesce(d.at, clock.now + d.delay) AS scheduled_for
    FROM
        unnest(
            $1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[],
            $9::interval[], $10::timestamptz[], $11::interval[], $12::timestamptz[], $13::text[], $14::uuid[]
        ) WITH ORDINALITY AS d (
            id, topic, payload, content_type, headers, key, group_name, priority,
            delay, at, expires_in, expires_at, correlation_id, causation_id, position
        ),
        (SELECT coalesce($16::timestamptz, statement_timestamp()) AS now) AS clock
),
-- Once per topic, not per draft. One copy per group, however many of its patterns match.
route AS MATERIALIZED (
    SELECT
        t.topic,
        ARRAY(
            SELECT s.group_name FROM mainspring.subscription AS s WHERE s.pattern = t.topic AND NOT s.wild
            UNION
            SELECT s.group_name FROM mainspring.subscription AS s WHERE s.wild AND t.topic ~ s.matcher
            ORDER BY 1
        ) AS groups
    FROM (SELECT DISTINCT draft.topic FROM draft WHERE draft.group_name IS NULL) AS t
),
routed AS MATERIALIZED (
    SELECT
        draft.*,
        CASE WHEN draft.group_name IS NULL THEN route.groups ELSE ARRAY[draft.group_name] END AS groups
    FROM draft LEFT JOIN route ON route.topic = draft.topic
),
-- In the order of ids, so that two callers who retry the same batch never wait for each other in a circle.
fresh AS (
    INSERT INTO mainspring.message (
        id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
    )
    SELECT
        id, topic, key, payload, content_type, headers, correlation_id, causation_id, now,
        coalesce(expires_at, now + expires_in), cardinality(groups)
    FROM routed
    ORDER BY id
    ON CONFLICT (id) DO NOTHING
    RETURNING id
),
stored AS MATERIALIZED (
    SELECT routed.* FROM routed JOIN fresh ON fresh.id = routed.id
),
delivered AS (
    INSERT INTO mainspring.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at, key)
    SELECT
        stored.id, receiver.name, stored.priority, greatest(stored.scheduled_for, stored.now), stored.scheduled_for,
        stored.now, stored.key
    FROM stored, unnest(stored.groups) WITH ORDINALITY AS receiver (name, position)
    ORDER BY stored.position, receiver.position
    RETURNING group_name
),
parked AS (
    INSERT INTO mainspring.parked (
        message_id, topic, key, priority, due_at, scheduled_for, published_at, parked_at
    )
    SELECT id, topic, key, priority, greatest(scheduled_for, now), scheduled_for, now, now
    FROM stored
    WHERE cardinality(groups) = 0
    ORDER BY position
),
-- A notification takes a lock that all committing transactions share: only who sleeps is woken.
rung AS MATERIALIZED (
    SELECT count(pg_notify($15, bell.group_name)) AS count
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($16::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT delivered.group_name FROM delivered)
)
SELECT fresh.id, rung.count
FROM fresh, rung
