-- $1 topics, $2 content types, $3 groups, $4 priorities: the kinds of drafts in this batch, each once;
-- $5 places in $1, $6 ids, $7 payloads, $8 headers, $9 keys, $10 delays, $11 instants, $12 times to live,
-- $13 expiries, $14 correlations, $15 causations, $16 schedules, $17 whether by hand, $18 joins: the drafts, one per
-- place; an array nobody filled may be empty; $19 channel, $20 now. Answers the ids that are stored now.
WITH kind AS MATERIALIZED (
    SELECT
        k.place, k.topic, k.content_type, k.priority,
        CASE WHEN k.group_name IS NOT NULL THEN ARRAY[k.group_name] ELSE ARRAY(
            -- One copy per group, however many of its patterns match.
            SELECT s.group_name FROM mainspring.subscription AS s WHERE s.pattern = k.topic AND NOT s.wild
            UNION
            SELECT s.group_name FROM mainspring.subscription AS s
            WHERE s.wild AND starts_with(k.topic, s.head) AND k.topic ~ s.matcher
            ORDER BY 1
        ) END AS groups
    FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[])
        WITH ORDINALITY AS k (topic, content_type, group_name, priority, place)
),
draft AS MATERIALIZED (
    SELECT
        d.*, kind.topic, kind.content_type, kind.priority, kind.groups, clock.now,
        -- By its seconds: a day has 24 hours here, also where the caller's zone changes its clocks in between.
        coalesce(d.at, clock.now + coalesce(make_interval(secs => extract(epoch FROM d.delay)::float8), '0'))
            AS scheduled_for
    FROM
        unnest(
            $5::integer[], $6::uuid[], $7::bytea[], $8::text[], $9::text[], $10::interval[], $11::timestamptz[],
            $12::interval[], $13::timestamptz[], $14::text[], $15::uuid[], $16::text[], $17::boolean[],
            $18::uuid[]
        ) WITH ORDINALITY AS d (
            kind, id, payload, headers, key, delay, at, expires_in, expires_at, correlation_id, causation_id, schedule,
            manual, join_id, position
        )
        JOIN kind ON kind.place = d.kind,
        (SELECT coalesce($20::timestamptz, statement_timestamp()) AS now) AS clock
),
-- In the order of ids, so that two callers who retry the same batch never wait for each other in a circle.
fresh AS (
    INSERT INTO mainspring.message (
        id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at, copies
    )
    SELECT
        id, topic, key, payload, content_type, headers, correlation_id, causation_id, now,
        coalesce(expires_at, now + make_interval(secs => extract(epoch FROM expires_in)::float8)), cardinality(groups)
    FROM draft
    ORDER BY id
    -- Sent again after a lost reply it changes nothing (invariant 1).
    ON CONFLICT (id) DO NOTHING
    RETURNING id
),
-- IS TRUE keeps this a hash lookup. As a join it would be planned for the handful of rows that PostgreSQL
-- expects of any array, and may then compare every draft with every other.
delivered AS (
    INSERT INTO mainspring.delivery (
        message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual, join_id
    )
    SELECT
        draft.id, receiver.name, draft.priority, greatest(draft.scheduled_for, draft.now), draft.scheduled_for,
        draft.now, draft.key, draft.schedule, coalesce(draft.manual, false), draft.join_id
    FROM draft, unnest(draft.groups) WITH ORDINALITY AS receiver (name, position)
    WHERE (draft.id IN (SELECT fresh.id FROM fresh)) IS TRUE
    ORDER BY draft.position, receiver.position
    RETURNING group_name
),
parked AS (
    INSERT INTO mainspring.parked (
        message_id, topic, key, priority, due_at, scheduled_for, published_at, parked_at, schedule, manual
    )
    SELECT
        id, topic, key, priority, greatest(scheduled_for, now), scheduled_for, now, now, schedule,
        coalesce(manual, false)
    FROM draft
    WHERE cardinality(groups) = 0
      AND (id IN (SELECT fresh.id FROM fresh)) IS TRUE
    ORDER BY position
),
-- A notification takes a lock that every committing transaction wants: only who sleeps is woken.
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($19, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > coalesce($20::timestamptz, statement_timestamp())
      AND bell.group_name IN (SELECT delivered.group_name FROM delivered)
)
-- rung is named here because nothing else would have it run.
SELECT fresh.id
FROM fresh, rung
