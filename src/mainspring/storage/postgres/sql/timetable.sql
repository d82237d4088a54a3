-- Schedules.

-- name: timetable_cancel
-- $1 schedules, $2 reason, $3 whether what has begun too, $4 whether what was asked for by hand too, $5 whether what is
-- parked too, $6 whether what others have locked is waited for, $7 channel, $8 now. However many there are. One row: how many
-- runs were asked to stop, whether a parked message got away to its groups while we waited for it, so that only a fresh look
-- finds it, and the schedules that were left alone.
WITH seen AS MATERIALIZED (
    SELECT d.seq, d.schedule
    FROM mainspring.delivery AS d
    WHERE d.schedule = ANY ($1::text[])
      AND ($3::boolean OR d.epoch = 0)
      AND ($4::boolean OR NOT d.manual)
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
),
-- Under the lock it is asked once more: what a worker has taken by then has begun. A pause or a deletion, which an
-- operator awaits, waits for what others have locked.
waited_for AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (
        SELECT LIVE_COLUMNS() FROM mainspring.delivery WHERE seq = seen.seq AND $6::boolean AND epoch = 0 FOR UPDATE
    ) AS d
),
-- Where an occurrence replaces another, or a worker retires a schedule, it is not waited for: all schedules of the app
-- would (invariant 28).
at_once AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (
        SELECT LIVE_COLUMNS()
        FROM mainspring.delivery
        WHERE seq = seen.seq AND NOT $6::boolean AND ($3::boolean OR epoch = 0)
        FOR UPDATE SKIP LOCKED
    ) AS d
),
-- What is replaced is all of a schedule or nothing: it goes on when the row is free again.
busy AS MATERIALIZED (
    SELECT DISTINCT seen.schedule
    FROM seen
    WHERE $3::boolean AND seen.seq NOT IN (SELECT at_once.seq FROM at_once)
),
live AS MATERIALIZED (
    SELECT waited_for.* FROM waited_for
    UNION ALL
    SELECT at_once.* FROM at_once WHERE at_once.schedule NOT IN (SELECT busy.schedule FROM busy)
),
-- Read from end to end: parked messages are few, and schedules are not often paused.
unheard AS MATERIALIZED (
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE $5::boolean
      AND p.schedule = ANY ($1::text[])
      AND ($4::boolean OR NOT p.manual)
    ORDER BY p.seq + 0
),
unheard_free AS MATERIALIZED (
    SELECT p.seq
    FROM unheard
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.parked WHERE seq = unheard.seq AND NOT $6::boolean FOR UPDATE SKIP LOCKED
    ) AS p
),
unrouted AS MATERIALIZED (
    SELECT unheard.seq FROM unheard WHERE $6::boolean
    UNION ALL
    SELECT unheard_free.seq FROM unheard_free
),
CANCELLED($2, $7, NOW($8))
SELECT
    (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL),
    (SELECT count(*) FROM unrouted) > (SELECT count(*) FROM waiting),
    ARRAY(SELECT busy.schedule FROM busy)
FROM rung

-- name: timetable_declared
-- $1 app, $2 names, $3 how often the declaration is confirmed, $4 now. A locked one is skipped until the
-- next time.
UPDATE mainspring.schedule
SET declared_at = NOW($4)
WHERE name = ANY (
    ARRAY(
        SELECT s.name
        FROM mainspring.schedule AS s
        WHERE s.app = $1
          AND s.name = ANY ($2::text[])
          AND s.declared_at <= NOW($4) - $3::interval
        ORDER BY s.name
        FOR UPDATE SKIP LOCKED
    )
)

-- name: timetable_due
-- $1 app, $2 names to leave, $3 limit, $4 for how long an unserved group is waited for, $5 now. The columns of a
-- schedule, its deliveries that are unfinished and that wait, and what time it is. Locked until they have gone on, and
-- skipped by other sessions until then (invariant 5).
WITH due AS MATERIALIZED (
    SELECT s.*
    FROM mainspring.schedule AS s
    WHERE s.app = $1
      AND s.next_at <= NOW($5)
      AND s.paused_at IS NULL AND s.retired_at IS NULL
      AND s.name <> ALL ($2::text[])
      AND NOT EXISTS (SELECT FROM mainspring.freeze AS f WHERE f.app IN ('', $1))
    ORDER BY s.next_at, s.name
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
SELECT
    due.name, due.app, due.origin, due.definition, due.created_at, due.declared_at, due.base_at, due.next_at,
    due.overrides, due.edits, due.version, due.revision, due.paused_at, due.paused_by, due.pause_reason, due.retired_at,
    due.fired, due.missed, due.skipped,
    (
        SELECT count(*)
        UNFINISHED(due.name, NOW($5) - $4::interval)
    ),
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM mainspring.delivery AS d
            WHERE d.schedule = due.name AND d.due_at = NEVER()
            LIMIT 1000
        ) AS w
    ),
    NOW($5)
FROM due
ORDER BY due.next_at, due.name

-- name: timetable_insert
-- $1 to $19 the columns of a schedule, as arrays. Returns the names that are new: another may have been faster.
INSERT INTO mainspring.schedule (
    name, app, origin, definition, created_at, declared_at, base_at, next_at, overrides, edits, version, revision,
    paused_at, paused_by, pause_reason, retired_at, fired, missed, skipped
)
SELECT v.*
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
    $8::timestamptz[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::timestamptz[], $14::text[],
    $15::text[], $16::timestamptz[], $17::bigint[], $18::bigint[], $19::bigint[]
) AS v
ON CONFLICT (name) DO NOTHING
RETURNING name

-- name: timetable_later
-- $1 message ids, $2 when their deliveries start: later than they are due by a jitter, or when an earlier run has ended.
WITH v AS MATERIALIZED (
    SELECT m.id, m.due_at FROM unnest($1::uuid[], $2::timestamptz[]) AS m (id, due_at)
),
parked AS (
    UPDATE mainspring.parked AS p SET due_at = greatest(p.due_at, v.due_at) FROM v
    WHERE p.message_id = v.id AND v.due_at < NEVER()
)
UPDATE mainspring.delivery AS d SET due_at = greatest(d.due_at, v.due_at) FROM v WHERE d.message_id = v.id

-- name: timetable_lock
-- $1 names, $2 whether what others have locked is waited for, $3 now. What time it is, the names that were passed over, and the
-- columns of a schedule, by name; one row of nulls where there is none.
WITH waited_for AS MATERIALIZED (
    SELECT s.* FROM mainspring.schedule AS s WHERE s.name = ANY ($1::text[]) AND $2::boolean ORDER BY s.name FOR UPDATE
),
at_once AS MATERIALIZED (
    SELECT s.*
    FROM mainspring.schedule AS s
    WHERE s.name = ANY ($1::text[]) AND NOT $2::boolean
    ORDER BY s.name
    FOR UPDATE SKIP LOCKED
),
locked AS MATERIALIZED (
    SELECT waited_for.* FROM waited_for
    UNION ALL
    SELECT at_once.* FROM at_once
)
SELECT
    clock.now,
    ARRAY(
        SELECT b.name
        FROM mainspring.schedule AS b
        WHERE b.name = ANY ($1::text[]) AND NOT $2::boolean AND b.name NOT IN (SELECT locked.name FROM locked)
    ),
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped
FROM (SELECT NOW($3) AS now) AS clock
LEFT JOIN locked AS s ON true
ORDER BY s.name

-- name: timetable_move
-- $1 names, $2 their next time so far, $3 revisions, $4 next times, $5 bases, $6 fired, $7 missed, $8 skipped.
-- Guarded by the old time and the revision, though the rows are locked: after a lost lock nothing is moved (invariant 5).
UPDATE mainspring.schedule AS s
SET next_at = v.next_at,
    base_at = v.base_at,
    fired = s.fired + v.fired,
    missed = s.missed + v.missed,
    skipped = s.skipped + v.skipped
FROM unnest(
    $1::text[], $2::timestamptz[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::bigint[],
    $8::bigint[]
) AS v (name, old_next_at, revision, next_at, base_at, fired, missed, skipped)
WHERE s.name = v.name AND s.next_at = v.old_next_at AND s.revision = v.revision
RETURNING s.name

-- name: timetable_peek
-- $1 app, $2 names to leave, $3 now. One row: how long until the next occurrence, whether anything of this app waits, whether
-- it is frozen, whether there are uncounted ends of members of joins.
SELECT
    (
        SELECT s.next_at - NOW($3)
        FROM mainspring.schedule AS s
        WHERE s.app = $1
          AND s.next_at IS NOT NULL AND s.paused_at IS NULL AND s.retired_at IS NULL
          AND s.name <> ALL ($2::text[])
        ORDER BY s.next_at
        LIMIT 1
    ),
    EXISTS (
        SELECT
        FROM mainspring.delivery AS d
        WHERE d.due_at = NEVER() AND d.schedule IS NOT NULL
          -- What is left of a deleted schedule is for every app.
          AND coalesce((SELECT s.app FROM mainspring.schedule AS s WHERE s.name = d.schedule), $1) = $1
    ),
    EXISTS (SELECT FROM mainspring.freeze AS f WHERE f.app IN ('', $1)),
    EXISTS (SELECT FROM mainspring.joint_end)

-- name: timetable_read
-- $1 names, $2 app: each may be null; $3 now. What time it is and the columns of a schedule, by name; one row of nulls where there
-- is none.
SELECT
    clock.now,
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped
FROM (SELECT NOW($3) AS now) AS clock
LEFT JOIN mainspring.schedule AS s
    ON ($1::text[] IS NULL OR s.name = ANY ($1)) AND ($2::text IS NULL OR s.app = $2)
ORDER BY s.name

-- name: timetable_release
-- $1 channel, $2 app whose schedules are meant, or $3 schedules; $4 schedules of which none need wait, $5 for how long a
-- unserved group is waited for, $6 now. One row: how many deliveries wait no longer, those of $4 and the ones of
-- the oldest waiting message of every schedule that has nothing unfinished. Under the lock a row is asked once more whether
-- it waits: another session may have released it.
WITH oldest AS MATERIALIZED (
    SELECT DISTINCT ON (d.schedule) d.schedule, d.message_id
    FROM mainspring.delivery AS d
    WHERE d.due_at = NEVER() AND d.schedule IS NOT NULL
      AND (
        d.schedule = ANY ($3::text[])
        -- What is left of a deleted schedule is for every app.
        OR coalesce((SELECT s.app FROM mainspring.schedule AS s WHERE s.name = d.schedule), $2::text) = $2::text
      )
    ORDER BY d.schedule, d.seq
),
freed AS MATERIALIZED (
    SELECT d.seq
    FROM oldest
    CROSS JOIN LATERAL (
        SELECT seq
        FROM mainspring.delivery
        WHERE message_id = oldest.message_id AND due_at = NEVER()
        ORDER BY seq
        FOR UPDATE SKIP LOCKED
    ) AS d
    WHERE NOT EXISTS (
        SELECT
        UNFINISHED(oldest.schedule, NOW($6) - $5::interval)
    )
),
free AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.delivery AS d
    WHERE d.schedule = ANY ($4::text[]) AND d.due_at = NEVER()
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
    FOR UPDATE SKIP LOCKED
),
released AS (
    UPDATE mainspring.delivery
    SET due_at = NOW($6)
    WHERE seq = ANY (ARRAY(SELECT freed.seq FROM freed UNION SELECT free.seq FROM free))
    RETURNING group_name
),
RUNG(released, $1, NOW($6))
SELECT (SELECT count(*) FROM released)
FROM rung

-- name: timetable_seen
-- $1 worker, $2 its start; $3 app, $4 version, $5 schedules: what it declares; $6 after how long it was away in between, $7 now.
INSERT INTO mainspring.declaration AS d (since, seen_at, worker, start_id, groups, patterns, app, version, schedules)
SELECT clock.now, clock.now, $1, $2, '{}', '{}', $3, $4, $5::text[]
FROM (SELECT NOW($7) AS now) AS clock
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < excluded.seen_at - $6::interval THEN excluded.since ELSE d.since END,
    seen_at = excluded.seen_at,
    app = excluded.app,
    version = excluded.version,
    schedules = excluded.schedules

-- name: ring
-- $1 channel. To all listeners, once this is committed: the next occurrence may be another.
SELECT mainspring.ring($1, '')

-- name: timetable_update
-- $1 to $19 the columns of a schedule, as arrays.
UPDATE mainspring.schedule AS s
SET app = v.app,
    origin = v.origin,
    definition = v.definition,
    declared_at = v.declared_at,
    base_at = v.base_at,
    next_at = v.next_at,
    overrides = v.overrides,
    edits = v.edits,
    version = v.version,
    revision = v.revision,
    paused_at = v.paused_at,
    paused_by = v.paused_by,
    pause_reason = v.pause_reason,
    retired_at = v.retired_at,
    fired = v.fired,
    missed = v.missed,
    skipped = v.skipped
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
    $8::timestamptz[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::timestamptz[], $14::text[],
    $15::text[], $16::timestamptz[], $17::bigint[], $18::bigint[], $19::bigint[]
) AS v (
    name, app, origin, definition, created_at, declared_at, base_at, next_at, overrides, edits, version, revision,
    paused_at, paused_by, pause_reason, retired_at, fired, missed, skipped
)
WHERE s.name = v.name
