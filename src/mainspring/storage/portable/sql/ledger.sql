-- Reading messages, runs, open joins, the roster and the audit.

-- part: DELIVERY_COLUMNS(at)
d.seq, d.message_id, d.group_name, m.topic, d.key,
    CASE
        WHEN d.held_by IS NOT NULL AND d.due_at <= {at} THEN 'lapsed'
        WHEN d.held_by IS NOT NULL THEN 'running'
        WHEN d.due_at <= {at} THEN 'ready'
        ELSE 'scheduled'
    END,
    d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at, d.held_by,
    d.cancel_asked, NULL::timestamptz, NULL::text, p.said, p.at, d.schedule, KIND(d, d.published_at)

-- part: KIND(row, published_at)
CASE
        WHEN {row}.schedule IS NOT NULL THEN 'recurring'
        WHEN {row}.scheduled_for > {published_at} THEN 'delayed'
        ELSE 'immediate'
    END

-- part: RUN_COLUMNS()
id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    -- Earlier releases wrote another word.
    CASE WHEN source = 'deferred' THEN 'delayed' ELSE coalesce(source, 'message') END, schedule, scheduled_for

-- part: ENDED_BEFORE()
($2::timestamptz IS NULL OR (finished_at <= $2 AND (finished_at < $2 OR id < $3::bigint)))

-- part: RUN_SOURCE(row)
CASE
            WHEN {row}.manual THEN 'manual'
            WHEN {row}.schedule IS NOT NULL THEN 'schedule'
            WHEN {row}.scheduled_for > {row}.published_at THEN 'delayed'
            ELSE 'message'
        END

-- part: LEFT_TO_REAP()
-- Whether a lapsed delivery d may be taken over only by a reap, alone: its holders, of this attempt and the one before, may have
-- died of it. One that was cancelled is ended by the reap.
(
        d.suspect
        OR d.deaths > 0
        OR d.cancel_asked
        OR EXISTS (
            SELECT 1
            FROM mainspring.run AS r INDEXED(run_message)
            WHERE r.message_id = d.message_id
              AND r.group_name = d.group_name
              AND r.status = 'lost'
              AND r.attempt = d.attempt - 1
        )
    )

-- part: CLAIM_SOURCE(row)
-- The source of a run of a claimed delivery. A replay has a range of epochs of its own: model.message.REPLAYED.
CASE WHEN {row}.epoch > 1048576 THEN 'replay' ELSE RUN_SOURCE({row}) END

-- part: MESSAGE_STATE(at)
coalesce(
        (SELECT 'dead' FROM mainspring.dead AS d WHERE d.message_id = m.id LIMIT 1),
        (
            SELECT
                CASE
                    WHEN d.held_by IS NOT NULL AND d.due_at > {at} THEN 'running'
                    WHEN d.held_by IS NOT NULL THEN 'lapsed'
                    WHEN d.due_at <= {at} THEN 'ready'
                    ELSE 'scheduled'
                END
            FROM mainspring.delivery AS d
            WHERE d.message_id = m.id
            ORDER BY d.held_by IS NULL, d.due_at
            LIMIT 1
        ),
        (SELECT 'parked' FROM mainspring.parked AS p WHERE p.message_id = m.id),
        (
            SELECT r.status
            FROM mainspring.run AS r INDEXED(run_message)
            WHERE r.message_id = m.id AND r.status IN ('done', 'cancelled')
            ORDER BY r.status
            LIMIT 1
        )
    )

-- name: audit
-- $1 before: may be null; $2 limit. Columns in the order of model.views.AuditView, newest first.
SELECT id, at, by_whom, action, subject, detail
FROM mainspring.audit
WHERE ($1::bigint IS NULL OR id < $1)
ORDER BY id DESC
LIMIT $2

-- name: audit_amend
-- $1 id, $2 detail: null leaves it; $3 what in it becomes $4.
UPDATE mainspring.audit SET detail = replace(coalesce($2::text, detail), $3, $4) WHERE id = $1

-- name: audit_note
-- $1 now, $2 by whom, $3 action, $4 subjects, $5 detail. A line for each subject; returns their ids.
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT NOW($1), $2, $3, s.value, $5
FROM EACH($4::text[], s)
RETURNING id

-- name: buried
-- $1 how long ago at most, $2 cap, $3 now. The latest dead letters, counted by group.
SELECT latest.group_name, count(*)
FROM (
    SELECT d.group_name
    FROM mainspring.dead AS d
    WHERE d.buried_at > NOW($3) - $1::interval
    ORDER BY d.buried_at DESC
    LIMIT $2
) AS latest
GROUP BY latest.group_name

-- name: find_deliveries
-- $1 message id, $2 now. Columns in the order of model.views.DeliveryView.
SELECT DELIVERY_COLUMNS(NOW($2)), 0
FROM mainspring.delivery AS d
LOOKUP(message, m, id, d.message_id)
PROGRESS()
WHERE d.message_id = $1
UNION ALL
SELECT
    d.seq, d.message_id, d.group_name, d.topic, d.key, 'dead', d.priority, d.attempt, d.deaths, d.scheduled_for,
    d.scheduled_for, d.published_at, NULL, false, d.buried_at, d.error, NULL, NULL, d.schedule, KIND(d, d.published_at),
    d.repeats
FROM mainspring.dead AS d
WHERE d.message_id = $1
UNION ALL
SELECT
    p.seq, p.message_id, '', p.topic, p.key, 'parked', p.priority, 0, 0, p.due_at, p.scheduled_for, p.published_at,
    NULL, false, NULL, NULL, NULL, NULL, p.schedule, KIND(p, p.published_at), 0
FROM mainspring.parked AS p
WHERE p.message_id = $1

-- name: find_message
-- $1 message id. Columns in the order of model.views.MessageView, up to expires_at.
SELECT id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at
FROM mainspring.message
WHERE id = $1

-- name: find_replacements
-- $1 message id. The ids of the messages that replaced it when it was dead, oldest first: those that it caused and that have
-- the header of a replacement.
SELECT id
FROM mainspring.message INDEXED(message_causation)
WHERE causation_id = $1 AND causation_id IS NOT NULL AND CONTAINS(headers, '"mainspring-replaces"')
ORDER BY published_at, id
LIMIT 100

-- name: find_runs
-- $1 message id. Columns in the order of model.views.RunView, oldest first.
SELECT RUN_COLUMNS()
FROM mainspring.run
WHERE message_id = $1
ORDER BY id

-- name: held
-- $1 seq, $2 epoch, $3 message id, $4 now. Columns in the order of model.message.Delivery, then the owner and the time.
SELECT
    d.seq, d.epoch, d.message_id, d.group_name, m.topic, m.payload, m.content_type, m.headers, d.key, m.correlation_id,
    m.causation_id, d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at,
    coalesce(m.expires_at <= NOW($4), false), d.cancel_asked, d.suspect, coalesce(d.claimed_at, NOW($4)), d.schedule,
    d.held_by, NOW($4)
FROM mainspring.delivery AS d
LOOKUP(message, m, id, d.message_id)
-- Not written IS NOT NULL: that would let the planner read all that is held instead of what is named.
WHERE d.seq = $1 AND d.epoch = $2 AND d.message_id = $3 AND coalesce(d.held_by, '') <> ''

-- name: joint_members
-- $1 join, $2 after this seq, $3 limit, $4 now. Columns in the order of model.views.DeliveryView.
SELECT DELIVERY_COLUMNS(NOW($4))
FROM mainspring.delivery AS d INDEXED(delivery_join)
LOOKUP(message, m, id, d.message_id)
PROGRESS()
WHERE d.join_id = $1 AND d.seq > $2::bigint
ORDER BY d.seq
LIMIT $3

-- name: roster_workers
-- Columns in the order of model.views.WorkerView.
SELECT
    name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped, draining_at, drained_by, drains,
    CASE WHEN draining_at IS NOT NULL THEN drain_reason END,
    (SELECT max(d.version) FROM mainspring.declaration AS d WHERE d.worker = name),
    links
FROM mainspring.worker
ORDER BY name

-- name: runs_all
-- $1 before: may be null; $2 limit. Columns in the order of model.views.RunView, newest first.
SELECT RUN_COLUMNS()
FROM mainspring.run
WHERE ($1::bigint IS NULL OR id < $1)
ORDER BY id DESC
LIMIT $2

-- name: runs_failed
-- $1 limit, $2 and $3 the end and the id of the run before these: may be null. Columns in the order of
-- model.views.RunView, the last to end first.
SELECT RUN_COLUMNS()
FROM (
    SELECT *
    FROM (
        SELECT *
        FROM mainspring.run
        WHERE status = 'failed' AND ENDED_BEFORE()
        ORDER BY finished_at DESC, id DESC
        LIMIT $1
    ) AS failed
    UNION ALL
    SELECT *
    FROM (
        SELECT *
        FROM mainspring.run
        WHERE status = 'dead' AND ENDED_BEFORE()
        ORDER BY finished_at DESC, id DESC
        LIMIT $1
    ) AS dead
    UNION ALL
    SELECT *
    FROM (
        SELECT *
        FROM mainspring.run
        WHERE status = 'lost' AND ENDED_BEFORE()
        ORDER BY finished_at DESC, id DESC
        LIMIT $1
    ) AS lost
) AS r
ORDER BY r.finished_at DESC, r.id DESC
LIMIT $1

-- name: runs_group
-- $1 group, $2 before: may be null; $3 limit. Columns in the order of model.views.RunView, newest first.
SELECT RUN_COLUMNS()
FROM mainspring.run
WHERE group_name = $1 AND ($2::bigint IS NULL OR id < $2)
ORDER BY id DESC
LIMIT $3

-- name: runs_schedule
-- $1 schedule, $2 group, $3 before: the last two may be null; $4 limit. Columns in the order of model.views.RunView, newest
-- first. Not written with OR: the index is to begin at the right place.
SELECT RUN_COLUMNS()
FROM mainspring.run INDEXED(run_schedule)
WHERE schedule = $1 AND ($2::text IS NULL OR group_name = $2) AND id < coalesce($3::bigint, 9223372036854775807)
ORDER BY id DESC
LIMIT $4

-- name: run_times
-- $1 schedule, $2 limit. When each of its latest runs that were done or failed has begun and ended.
SELECT started_at, finished_at
FROM mainspring.run INDEXED(run_schedule)
WHERE schedule = $1 AND status IN ('done', 'failed', 'dead')
ORDER BY id DESC
LIMIT $2

-- name: ping
SELECT 1

-- name: schema_applied
-- Returns (number, checksum, breaking) of every migration that was applied.
SELECT number, checksum, breaking FROM mainspring.migration ORDER BY number
