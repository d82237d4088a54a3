-- Schedules.

-- name: timetable_declared
-- ?1 app, ?2 names, ?3 how often the declaration is confirmed, ?4 now. Returns a row for each that had to be.
UPDATE mainspring_schedule
SET declared_at = ?4
WHERE app = ?1 AND name IN (SELECT value FROM json_each(?2)) AND declared_at <= ?4 - ?3
RETURNING 1

-- name: timetable_due
-- ?1 app, ?2 names to leave, ?3 limit, ?4 for how long an unserved group is waited for, ?5 now. The columns of a schedule, its
-- deliveries that are unfinished and that wait, the newest of them, and now: that there are any is of interest, and whether there
-- are too many. Where these are all left behind by an unserved group, an older one that counts is not seen; it
-- would have kept them from starting, unless overlaps were allowed then or they were asked for by hand.
SELECT
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped,
    (
        SELECT count(*)
        UNFINISHED(s.name, ?5 - ?4)
    ),
    (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting
            WHERE d.schedule = s.name AND d.due_at = NEVER()
            LIMIT 1000
        )
    ),
    ?5
FROM mainspring_schedule AS s INDEXED BY mainspring_schedule_due
WHERE s.app = ?1
  AND s.next_at <= ?5 AND s.paused_at IS NULL AND s.retired_at IS NULL
  AND s.name NOT IN (SELECT value FROM json_each(?2))
ORDER BY s.next_at, s.name
LIMIT ?3

-- name: timetable_insert
INSERT INTO mainspring_schedule (
    name, app, origin, definition, created_at, declared_at, base_at, next_at, overrides, edits, version, revision,
    paused_at, paused_by, pause_reason, retired_at, fired, missed, skipped
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)

-- name: timetable_later
-- ?1 message id, ?2 when its deliveries start: later than they are due by a jitter, or when an earlier run has ended.
UPDATE mainspring_delivery SET due_at = max(due_at, ?2) WHERE message_id = ?1

-- name: timetable_later_parked
-- ?1 message id, ?2 when it is to start at the earliest. A parked message waits for no earlier run.
UPDATE mainspring_parked SET due_at = max(due_at, ?2) WHERE message_id = ?1 AND ?2 < NEVER()

-- name: timetable_move
-- ?1 rows of name, its next time so far, revision, next time, base, fired, missed, skipped. Returns the names.
-- Guarded by the old time and the revision, though the write lock is ours: a row that has changed is not moved (invariant 5).
UPDATE mainspring_schedule AS s
SET next_at = CELL(v, 3),
    base_at = CELL(v, 4),
    fired = s.fired + CELL(v, 5),
    missed = s.missed + CELL(v, 6),
    skipped = s.skipped + CELL(v, 7)
FROM json_each(?1) AS v
WHERE s.name = CELL(v, 0) AND s.next_at = CELL(v, 1) AND s.revision = CELL(v, 2)
RETURNING name

-- name: timetable_parked
-- ?1 schedules, ?2 whether manual ones too. Read from end to end: parked messages are few, and
-- schedules are not often paused.
SELECT seq, message_id
FROM mainspring_parked
WHERE schedule IN (SELECT value FROM json_each(?1)) AND (?2 OR NOT manual)
ORDER BY seq

-- name: timetable_peek
-- ?1 app, ?2 names to leave, ?3 now. One row: how long until the next occurrence, whether anything of this app waits, whether it is
-- frozen, whether some join is complete.
SELECT
    (
        SELECT next_at - ?3
        FROM mainspring_schedule INDEXED BY mainspring_schedule_due
        WHERE app = ?1
          AND next_at IS NOT NULL AND paused_at IS NULL AND retired_at IS NULL
          AND name NOT IN (SELECT value FROM json_each(?2))
        ORDER BY next_at
        LIMIT 1
    ),
    EXISTS (
        SELECT 1
        FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting
        WHERE d.schedule IS NOT NULL AND d.due_at = NEVER()
          -- What is left of a deleted schedule is for every app.
          AND coalesce((SELECT s.app FROM mainspring_schedule AS s WHERE s.name = d.schedule), ?1) = ?1
    ),
    EXISTS (SELECT 1 FROM mainspring_freeze WHERE app IN ('', ?1)),
    EXISTS (SELECT 1 FROM mainspring_joint INDEXED BY mainspring_joint_complete WHERE pending <= 0)

-- name: timetable_read
-- ?1 names, ?2 app: each may be null; ?3 now. Now and the columns of a schedule, by name; one row of nulls where there is none.
SELECT
    clock.now,
    s.name, s.app, s.origin, s.definition, s.created_at, s.declared_at, s.base_at, s.next_at, s.overrides, s.edits,
    s.version, s.revision, s.paused_at, s.paused_by, s.pause_reason, s.retired_at, s.fired, s.missed, s.skipped
FROM (SELECT ?3 AS now) AS clock
LEFT JOIN mainspring_schedule AS s
    ON (?1 IS NULL OR s.name IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR s.app = ?2)
ORDER BY s.name

-- name: timetable_release
UPDATE mainspring_delivery SET due_at = ?2 WHERE seq IN (SELECT value FROM json_each(?1))

-- name: timetable_seen
-- ?1 worker, ?2 its start; ?3 app, ?4 version, ?5 schedules: what it declares; ?6 after how long it was away in between, ?7 now.
INSERT INTO mainspring_declaration AS d (worker, start_id, declared, app, version, schedules, since, seen_at)
VALUES (?1, ?2, '[]', ?3, ?4, ?5, ?7, ?7)
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < ?7 - ?6 THEN ?7 ELSE d.since END, seen_at = ?7, app = ?3, version = ?4, schedules = ?5

-- name: timetable_unfinished
-- ?1 schedules, ?2 whether those that have begun too, ?3 whether manual ones too. Their deliveries,
-- as cancel_find_id.sql answers those of a message.
SELECT d.seq, d.message_id, d.held_by IS NOT NULL, d.join_id
FROM json_each(?1) AS stopped
CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_schedule ON d.schedule = stopped.value
WHERE (?2 OR d.epoch = 0) AND (?3 OR NOT d.manual)
ORDER BY d.seq

-- name: timetable_update
-- ?1 to ?19 the columns of a schedule; when it was created stays.
UPDATE mainspring_schedule
SET app = ?2, origin = ?3, definition = ?4, declared_at = ?6, base_at = ?7, next_at = ?8, overrides = ?9,
    edits = ?10, version = ?11, revision = ?12, paused_at = ?13, paused_by = ?14, pause_reason = ?15, retired_at = ?16,
    fired = ?17, missed = ?18, skipped = ?19
WHERE name = ?1

-- name: timetable_waiting
-- ?1 app whose schedules are meant, or ?2 schedules; ?3 schedules of which none need wait, ?4 since when a group must have been
-- served. The deliveries that need not wait: those of ?3, and the ones of the oldest waiting message of every schedule that
-- has nothing unfinished.
WITH oldest AS MATERIALIZED (
    SELECT d.schedule, min(d.seq) AS seq
    FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting
    WHERE d.schedule IS NOT NULL AND d.due_at = NEVER()
      AND (
        d.schedule IN (SELECT value FROM json_each(?2))
        -- What is left of a deleted schedule is for every app.
        OR coalesce((SELECT s.app FROM mainspring_schedule AS s WHERE s.name = d.schedule), ?1) = ?1
      )
    GROUP BY d.schedule
)
SELECT d.seq
FROM oldest
CROSS JOIN mainspring_delivery AS first ON first.seq = oldest.seq
CROSS JOIN mainspring_delivery AS d ON d.message_id = first.message_id AND d.due_at = NEVER()
WHERE NOT EXISTS (
        SELECT 1
        UNFINISHED(oldest.schedule, ?4)
    )
UNION
SELECT d.seq
FROM json_each(?3) AS free
CROSS JOIN mainspring_delivery AS d INDEXED BY mainspring_delivery_waiting ON d.schedule = free.value
WHERE d.due_at = NEVER() AND d.schedule IS NOT NULL
ORDER BY 1
