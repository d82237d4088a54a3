-- Searches of deliveries. $1 and $2 of a scan are before which row, and how many; of a page which rows, and how many match.

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

-- part: DEAD_MATCH()
($3::text IS NULL OR d.group_name = $3)
        AND ($4::text IS NULL OR d.topic = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR CONTAINS(d.error, $6))
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8)
        AND ($9::text IS NULL OR d.fingerprint = $9)

-- part: ENDED_MATCH()
r.status = $3
        AND ($4::text IS NULL OR r.group_name = $4)
        AND ($5::text IS NULL OR r.topic = $5)
        AND ($6::text IS NULL OR CONTAINS(r.error, $6))

-- part: PARKED_MATCH()
($3::text IS NULL OR p.topic = $3)
        AND ($4::text IS NULL OR p.key = $4)
        AND ($5::timestamptz IS NULL OR p.published_at >= $5)
        AND ($6::timestamptz IS NULL OR p.published_at < $6)

-- name: scan_live
-- $3 state (live, scheduled, ready, running, lapsed, retrying), $4 group, $5 key, $6 held by, $7 since, $8 until: each but
-- the state may be null; $9 now.
SCAN(delivery, d, seq, LIVE_MATCH(NOW($9)), NEWEST(d, seq))

-- name: scan_dead
-- $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint: each may be null.
SCAN(dead, d, seq, DEAD_MATCH(), NEWEST(d, seq))

-- name: scan_dead_group
-- As scan_dead, of a group.
SCAN(dead, d, seq, DEAD_MATCH(), NEWEST_OF_GROUP(d, seq, $3, dead_group))

-- name: scan_dead_cause
-- As scan_dead, of a group and a fingerprint.
SCAN(dead, d, seq, DEAD_MATCH(), NEWEST_OF_CAUSE())

-- name: scan_ended
-- $3 status, $4 group, $5 topic, $6 text of the error: each but the status may be null.
SCAN(run, r, id, ENDED_MATCH(), NEWEST(r, id))

-- name: scan_ended_group
-- As scan_ended, of a group.
SCAN(run, r, id, ENDED_MATCH(), NEWEST_OF_GROUP(r, id, $4, run_group))

-- name: scan_parked
-- $3 topic, $4 key, $5 since, $6 until: each may be null.
SCAN(parked, p, seq, PARKED_MATCH(), NEWEST(p, seq))

-- name: scan_parked_topic
-- As scan_parked, of a topic.
SCAN(parked, p, seq, PARKED_MATCH(), NEWEST_OF_TOPIC())

-- name: browse_live
-- $3 to $8 as in scan_live, $9 topic, $10 text to be found in the payload: may be null; $11 now. Columns in the order of
-- model.views.DeliveryView, newest first.
SELECT DELIVERY_COLUMNS(NOW($11))
FROM NEWEST_FIRST($1) AS s
LOOKUP(delivery, d, seq, s.seq)
LOOKUP(message, m, id, d.message_id)
PROGRESS()
WHERE LIVE_MATCH(NOW($11))
  AND ($9::text IS NULL OR m.topic = $9)
  AND ($10::text IS NULL OR PAYLOAD_CONTAINS(m.payload, $10))
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_dead
-- $3 to $9 as in scan_dead, $10 text to be found in the payload: may be null. Columns in the order of
-- model.views.DeliveryView, newest first.
SELECT
    d.seq, d.message_id, d.group_name, d.topic, d.key, 'dead', d.priority, d.attempt, d.deaths, d.scheduled_for,
    d.scheduled_for, d.published_at, NULL::text, false, d.buried_at, d.error
FROM NEWEST_FIRST($1) AS s
LOOKUP(dead, d, seq, s.seq)
WHERE DEAD_MATCH()
  AND ($10::text IS NULL OR (SELECT PAYLOAD_CONTAINS(m.payload, $10) FROM mainspring.message AS m WHERE m.id = d.message_id))
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_ended
-- $3 to $6 as in scan_ended; $7 key, $8 since, $9 until, $10 text to be found in the payload: each may be null. Columns in
-- the order of model.views.DeliveryView, newest first. A run does not remember its delivery's times and priority: those of
-- the message stand in for them, and normal.
SELECT
    r.id, r.message_id, r.group_name, r.topic, m.key, r.status, 2, r.attempt, 0, m.published_at, m.published_at,
    m.published_at, NULL::text, false, NULL::timestamptz, r.error
FROM NEWEST_FIRST($1) AS s
LOOKUP(run, r, id, s.seq)
LOOKUP(message, m, id, r.message_id)
WHERE ENDED_MATCH()
  AND ($7::text IS NULL OR m.key = $7)
  AND ($8::timestamptz IS NULL OR m.published_at >= $8)
  AND ($9::timestamptz IS NULL OR m.published_at < $9)
  AND ($10::text IS NULL OR PAYLOAD_CONTAINS(m.payload, $10))
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_parked
-- $3 to $6 as in scan_parked, $7 text to be found in the payload: may be null. Columns in the order of
-- model.views.DeliveryView, newest first.
SELECT
    p.seq, p.message_id, '', p.topic, p.key, 'parked', p.priority, 0, 0, p.due_at, p.scheduled_for, p.published_at,
    NULL::text, false, NULL::timestamptz, NULL::text
FROM NEWEST_FIRST($1) AS s
LOOKUP(parked, p, seq, s.seq)
WHERE PARKED_MATCH()
  AND ($7::text IS NULL OR (SELECT PAYLOAD_CONTAINS(m.payload, $7) FROM mainspring.message AS m WHERE m.id = p.message_id))
ORDER BY s.seq DESC
LIMIT $2
