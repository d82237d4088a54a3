-- Publishing, with unique keys and without.

-- name: pending
-- $1 groups, $2 how far each is counted. A row per group: (name, how many of its deliveries are unheld, due or not).
--
-- The scan stops at that number, so a backlog of millions costs no more than one of so many. It goes backwards: what
-- was settled and is not vacuumed yet lies at the other end, and would be passed over row by row.
SELECT
    asked.name,
    (
        SELECT count(*) FROM (
            SELECT FROM mainspring.delivery AS d
            WHERE d.group_name = asked.name AND d.held_by IS NULL
            ORDER BY d.group_name DESC, d.priority DESC, d.due_at DESC, d.seq DESC
            LIMIT asked.most
        ) AS counted
    )
FROM unnest($1::text[], $2::bigint[]) AS asked (name, most)

-- name: publish
-- $1 to $4 the kinds of drafts, $5 to $18 the drafts, $19 channel, $20 now, as of the function. Returns the ids that were known already.
SELECT mainspring.publish_all(
    $1::text[], $2::text[], $3::text[], $4::smallint[],
    $5::integer[], $6::uuid[], $7::bytea[], $8::text[], $9::text[], $10::interval[], $11::timestamptz[],
    $12::interval[], $13::timestamptz[], $14::text[], $15::uuid[], $16::text[], $17::boolean[], $18::uuid[],
    $19::text, $20::timestamptz
)

-- name: publish_known
-- $1 places, $2 ids, $3 topics, $4 SHA-256 of the payloads: the drafts whose ids are known. Returns the places of those
-- that are known as other messages, and the topics of these.
SELECT draft.place, known.topic
FROM unnest($1::integer[], $2::uuid[], $3::text[], $4::bytea[]) AS draft (place, id, topic, digest)
INNER JOIN mainspring.message AS known ON known.id = draft.id
WHERE known.topic <> draft.topic OR sha256(known.payload) <> draft.digest

-- name: publish_one
-- $1 topic, $2 content type, $3 group, $4 priority, $5 id, $6 payload, $7 headers, $8 key, $9 delay, $10 instant,
-- $11 time to live, $12 expiry, $13 correlation, $14 causation: the draft; $15 channel, $16 now. Returns its id if it is
-- stored now. Lengths of time go by their seconds: a day has 24 hours, also where the caller's zone changes its clocks.
SELECT mainspring.publish_one(
    $1::text, $2::text, $3::text, $4::smallint, $5::uuid, $6::bytea, $7::text, $8::text,
    make_interval(secs => extract(epoch FROM $9::interval)::float8), $10::timestamptz,
    make_interval(secs => extract(epoch FROM $11::interval)::float8), $12::timestamptz,
    $13::text, $14::uuid, $15::text, $16::timestamptz
)

-- name: publish_readable
-- Whether the role may compare a payload with that of a known message: the role *publish* may not.
SELECT has_column_privilege('mainspring.message', 'payload', 'SELECT')

-- name: reroute
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
        greatest(taken.due_at, NOW($3)), taken.scheduled_for,
        taken.published_at, taken.key, taken.schedule, taken.manual
    FROM taken JOIN oldest ON oldest.seq = taken.seq, unnest(oldest.groups) WITH ORDINALITY AS receiver (name, position)
    ORDER BY taken.seq, receiver.position
    ON CONFLICT (message_id, group_name) DO NOTHING
    RETURNING group_name
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($2, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > NOW($3)
      AND bell.group_name IN (SELECT delivered.group_name FROM delivered)
)
-- rung is named here because nothing else would have it run.
SELECT
    (SELECT count(*) FROM taken),
    (SELECT count(walked.name) FROM walked),
    (SELECT max(walked.name) FROM walked)
FROM rung

-- name: unique_enter
-- $1 hash, $2 id of the new message, $3 scope, $4 window, $5 keep, $6 how long it is remembered, $7 now. One row: what is to
-- be done, and the earlier message. Lengths of time go by their seconds: a day has 24 hours, also where the caller's zone
-- changes its clocks.
SELECT fate, earlier
FROM mainspring.likeness_enter(
    $1::bytea, $2::uuid, $3::text, make_interval(secs => extract(epoch FROM $4::interval)::float8), $5::text,
    make_interval(secs => extract(epoch FROM $6::interval)::float8), $7::timestamptz
)

-- name: unique_prune
-- $1 limit, $2 after how long what is still needed is looked at again, $3 now. One row: how many were removed.
SELECT mainspring.likeness_prune($1::bigint, $2::interval, $3::timestamptz)

-- name: unique_replace
-- $1 message id, $2 reason, $3 channel, $4 now. Cancels its copies that have not begun. One row: how many, and whether a
-- parked message got away to its groups while we waited for it, so that only a fresh look finds it.
WITH seen AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.delivery AS d
    WHERE d.message_id = $1::uuid AND d.epoch = 0
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
),
-- Under the lock it is asked once more: what a worker has taken by then has begun.
live AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (
        SELECT LIVE_COLUMNS() FROM mainspring.delivery WHERE seq = seen.seq AND epoch = 0 FOR UPDATE
    ) AS d
),
unrouted AS MATERIALIZED (
    SELECT p.seq FROM mainspring.parked AS p WHERE p.message_id = $1::uuid
),
CANCELLED($2, $3, NOW($4))
SELECT
    (SELECT count(*) FROM over),
    (SELECT count(*) FROM unrouted) > (SELECT count(*) FROM waiting)
FROM rung
