-- Searches of deliveries. $1 and $2 of a scan are before which row, and how many; of a page which rows, and how many match.
-- What was handled has the number of its batch and its place in it as one number (PLACED), above that of any run: pages go from all
-- that is listed in batches to the runs that are in none.

-- part: SCAN(table, row, id, match, newest)
-- One row: how many were looked at, the last of them, and which may match.
SELECT count(*), min(w.{id}), GATHERED(w.{id}, w.hit)
FROM (
    SELECT {row}.{id}, {match} AS hit
    FROM mainspring.{table} AS {row}
    {newest}
    LIMIT $2
) AS w

-- part: NEWEST(row, id)
WHERE {row}.{id} < $1
    ORDER BY {row}.{id} DESC

-- part: IN_STATE(state, at)
CASE {state}::text
            WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > {at}
            WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= {at}
            WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
            WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= {at}
            WHEN 'scheduled' THEN d.held_by IS NULL AND d.due_at > {at}
            ELSE true
        END

-- part: LIVE_MATCH(at)
IN_STATE($3, {at})
        AND ($4::text IS NULL OR d.group_name = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR d.held_by = $6 OR HOLDER_NAME(d.held_by) = $6 || '~')
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8)
        AND ($9::text IS NULL OR KIND(d, d.published_at) = $9)

-- part: DEAD_MATCH()
($3::text IS NULL OR d.group_name = $3)
        AND ($4::text IS NULL OR d.topic = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR CONTAINS(d.error, $6))
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8)
        AND ($9::text IS NULL OR d.fingerprint = $9)
        AND ($10::text IS NULL OR KIND(d, d.published_at) = $10)

-- part: ENDED_MATCH()
r.status = $3
        AND ($4::text IS NULL OR r.group_name = $4)
        AND ($5::text IS NULL OR r.topic = $5)
        AND ($6::text IS NULL OR CONTAINS(r.error, $6))
        AND ($7::text IS NULL OR (r.schedule IS NOT NULL) = ($7 = 'recurring'))
        -- What is listed in a batch is found there.
        AND (
            r.status <> 'done'
            OR (
                SELECT 1
                FROM mainspring.ended AS e
                WHERE e.at = r.finished_at AND e.group_name = r.group_name AND LISTS(e.message_ids, r.message_id)
                LIMIT 1
            ) IS NULL
        )

-- part: HANDLED_MATCH(group, kind)
(e.group_name IS NOT NULL AND ({group}::text IS NULL OR e.group_name = {group}) AND ({kind}::text IS NULL OR e.kind = {kind}))

-- part: PLACED(batch, place)
(4503599627370496 + {batch} * 16384 + {place})

-- part: BATCH_OF(seq)
(({seq}::bigint - 4503599627370496) / 16384)

-- part: PLACE_OF(seq)
(({seq}::bigint - 4503599627370496) % 16384)

-- part: PARKED_MATCH()
($3::text IS NULL OR p.topic = $3)
        AND ($4::text IS NULL OR p.key = $4)
        AND ($5::timestamptz IS NULL OR p.published_at >= $5)
        AND ($6::timestamptz IS NULL OR p.published_at < $6)
        AND ($7::text IS NULL OR KIND(p, p.published_at) = $7)

-- part: CORRELATED(text, id)
({text}::text IS NULL OR m.correlation_id = {text} OR (m.id = {id} AND m.correlation_id IS NULL))

-- part: PREVIEW(shown)
-- What follows the columns of a view: the payload's content type, its size, and its beginning if it is shown.
m.content_type, length(m.payload), CASE WHEN {shown}::boolean THEN substr(m.payload, 1, 1000) END

-- name: scan_live
-- $3 state (live, scheduled, ready, running, lapsed, retrying), $4 group, $5 key, $6 held by, $7 since, $8 until, $9 kind:
-- each but the state may be null; $10 now.
SCAN(delivery, d, seq, LIVE_MATCH(NOW($10)), NEWEST(d, seq))

-- name: scan_dead
-- $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint, $10 kind: each may be null.
SCAN(dead, d, seq, DEAD_MATCH(), NEWEST(d, seq))

-- name: scan_dead_group
-- As scan_dead, of a group.
SCAN(dead, d, seq, DEAD_MATCH(), NEWEST_OF_GROUP(d, seq, $3, dead_group))

-- name: scan_dead_cause
-- As scan_dead, of a group and a fingerprint.
SCAN(dead, d, seq, DEAD_MATCH(), NEWEST_OF_CAUSE())

-- name: scan_ended
-- $3 status, $4 group, $5 topic, $6 text of the error, $7 kind: each but the status may be null. Whether a run was delayed is
-- known with its message.
SCAN(run, r, id, ENDED_MATCH(), NEWEST(r, id))

-- name: scan_ended_group
-- As scan_ended, of a group.
SCAN(run, r, id, ENDED_MATCH(), NEWEST_OF_GROUP(r, id, $4, run_group))

-- name: browse_handled
-- $3 group, $4 kind, $5 topic, $6 key, $7 since, $8 until, $9 text to be found in the payload, $10 correlation id, $11 the message
-- of that id: each may be null; $12 whether payloads are shown. Columns in the order of model.views.DeliveryView, newest first. Its
-- attempt is counted by the runs that are kept, and its schedule is known by them.
SELECT
    s.seq, m.id, e.group_name, m.topic, m.key, 'done', 2,
    coalesce(
        (
            SELECT max(r.attempt + CASE WHEN r.status IN ('done', 'snoozed') THEN 0 ELSE 1 END)
            FROM mainspring.run AS r INDEXED(run_message)
            WHERE r.message_id = m.id AND r.group_name = e.group_name
        ),
        1
    ),
    0, m.published_at, m.published_at, m.published_at, NULL::text, false, NULL::timestamptz, NULL::text,
    NULL::text, NULL::timestamptz,
    (
        SELECT max(r.schedule)
        FROM mainspring.run AS r INDEXED(run_message)
        WHERE r.message_id = m.id AND r.group_name = e.group_name
    ),
    e.kind, 0, NULL::text, e.at, e.held_by, PREVIEW($12)
FROM NEWEST_FIRST($1) AS s
LOOKUP(ended, e, id, BATCH_OF(s.seq))
LOOKUP(message, m, id, LISTED(e.message_ids, PLACE_OF(s.seq)))
WHERE HANDLED_MATCH($3, $4)
  AND ($5::text IS NULL OR m.topic = $5)
  AND ($6::text IS NULL OR m.key = $6)
  AND ($7::timestamptz IS NULL OR m.published_at >= $7)
  AND ($8::timestamptz IS NULL OR m.published_at < $8)
  AND ($9::text IS NULL OR PAYLOAD_CONTAINS(m.payload, $9))
  AND CORRELATED($10, $11)
ORDER BY s.seq DESC
LIMIT $2

-- name: scan_parked
-- $3 topic, $4 key, $5 since, $6 until, $7 kind: each may be null.
SCAN(parked, p, seq, PARKED_MATCH(), NEWEST(p, seq))

-- name: scan_parked_topic
-- As scan_parked, of a topic.
SCAN(parked, p, seq, PARKED_MATCH(), NEWEST_OF_TOPIC())

-- name: browse_live
-- $3 to $9 as in scan_live, $10 topic, $11 text to be found in the payload, $12 correlation id, $13 the message of that id:
-- each may be null; $14 whether payloads are shown, $15 now. Columns in the order of model.views.DeliveryView, newest first.
SELECT DELIVERY_COLUMNS(NOW($15)), PREVIEW($14)
FROM NEWEST_FIRST($1) AS s
LOOKUP(delivery, d, seq, s.seq)
LOOKUP(message, m, id, d.message_id)
PROGRESS()
WHERE LIVE_MATCH(NOW($15))
  AND ($10::text IS NULL OR m.topic = $10)
  AND ($11::text IS NULL OR PAYLOAD_CONTAINS(m.payload, $11))
  AND CORRELATED($12, $13)
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_dead
-- $3 to $10 as in scan_dead, $11 text to be found in the payload, $12 correlation id, $13 the message of that id: each may be
-- null; $14 whether payloads are shown. Columns in the order of model.views.DeliveryView, newest first.
SELECT
    d.seq, d.message_id, d.group_name, d.topic, d.key, 'dead', d.priority, d.attempt, d.deaths, d.scheduled_for,
    d.scheduled_for, d.published_at, NULL::text, false, d.buried_at, d.error, NULL::text, NULL::timestamptz, d.schedule,
    KIND(d, d.published_at), d.repeats, PREVIEW($14)
FROM NEWEST_FIRST($1) AS s
LOOKUP(dead, d, seq, s.seq)
LOOKUP_IF_ANY(message, m, id, d.message_id)
WHERE DEAD_MATCH()
  AND ($11::text IS NULL OR PAYLOAD_CONTAINS(m.payload, $11))
  AND CORRELATED($12, $13)
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_ended
-- $3 to $7 as in scan_ended; $8 key, $9 since, $10 until, $11 text to be found in the payload, $12 correlation id, $13 the
-- message of that id: each may be null; $14 whether payloads are shown. Columns in the order of model.views.DeliveryView,
-- newest first. A run does not remember its delivery's times and priority: those of the message stand in for them, and normal.
SELECT
    r.id, r.message_id, r.group_name, r.topic, m.key, r.status, 2, r.attempt, 0, m.published_at, m.published_at,
    m.published_at, NULL::text, false, NULL::timestamptz, r.error, NULL::text, NULL::timestamptz, r.schedule,
    KIND(r, m.published_at), 0, NULL::text, r.finished_at, r.node, PREVIEW($14)
FROM NEWEST_FIRST($1) AS s
LOOKUP(run, r, id, s.seq)
LOOKUP(message, m, id, r.message_id)
WHERE ENDED_MATCH()
  AND ($7::text IS NULL OR KIND(r, m.published_at) = $7)
  AND ($8::text IS NULL OR m.key = $8)
  AND ($9::timestamptz IS NULL OR m.published_at >= $9)
  AND ($10::timestamptz IS NULL OR m.published_at < $10)
  AND ($11::text IS NULL OR PAYLOAD_CONTAINS(m.payload, $11))
  AND CORRELATED($12, $13)
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_parked
-- $3 to $7 as in scan_parked, $8 text to be found in the payload, $9 correlation id, $10 the message of that id: each may be
-- null; $11 whether payloads are shown. Columns in the order of model.views.DeliveryView, newest first.
SELECT
    p.seq, p.message_id, '', p.topic, p.key, 'parked', p.priority, 0, 0, p.due_at, p.scheduled_for, p.published_at,
    NULL::text, false, NULL::timestamptz, NULL::text, NULL::text, NULL::timestamptz, p.schedule, KIND(p, p.published_at),
    PREVIEW($11)
FROM NEWEST_FIRST($1) AS s
LOOKUP(parked, p, seq, s.seq)
LOOKUP_IF_ANY(message, m, id, p.message_id)
WHERE PARKED_MATCH()
  AND ($8::text IS NULL OR PAYLOAD_CONTAINS(m.payload, $8))
  AND CORRELATED($9, $10)
ORDER BY s.seq DESC
LIMIT $2
