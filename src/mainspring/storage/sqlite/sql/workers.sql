-- Workers: declarations, heartbeats, the doorbell.

-- name: beat_drain
SELECT draining_at FROM mainspring_worker WHERE name = ?1

-- name: beat_served
-- Once a minute is enough to say that a group is served.
UPDATE mainspring_groups
SET served_at = ?2
WHERE name IN (SELECT value FROM json_each(?1)) AND (served_at IS NULL OR served_at < ?2 - 60000000)

-- name: beat_tally
INSERT INTO mainspring_tally (worker, group_name, handled, failed)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = handled + excluded.handled, failed = failed + excluded.failed

-- name: beat_worker
-- ?1 worker, ?2 app, ?3 host, ?4 pid, ?5 groups, ?6 in hand, ?7 bell, ?8 now, ?9 tripped, ?10 which start it is of, ?11 its
-- number, ?12 whether it drains, ?13 its connections to brokers: may be null. No row where this very beat was taken already, so that nothing is counted twice.
-- Not RETURNING draining_at IS NOT NULL: some releases of SQLite take that for true.
INSERT INTO mainspring_worker AS w (
    name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped, start_id, beats, drains, links, draining_at
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13,
    -- The roster had forgotten it.
    CASE WHEN ?12 THEN ?8 END
)
ON CONFLICT (name) DO UPDATE
SET app = excluded.app, host = excluded.host, pid = excluded.pid, groups = excluded.groups,
    in_hand = excluded.in_hand, bell = excluded.bell, beat_at = excluded.beat_at,
    tripped = excluded.tripped, start_id = excluded.start_id, beats = excluded.beats, drains = excluded.drains,
    links = excluded.links,
    -- Only the first beat of another start is a restart: two workers may run under one name.
    started_at = CASE WHEN w.start_id <> ?10 AND ?11 = 1 THEN ?8 ELSE w.started_at END,
    draining_at = CASE WHEN w.start_id <> ?10 AND ?11 = 1 THEN NULL ELSE w.draining_at END,
    drained_by = CASE WHEN w.start_id <> ?10 AND ?11 = 1 THEN NULL ELSE w.drained_by END
WHERE ?11 = 0 OR w.start_id <> ?10 OR w.beats < ?11
RETURNING draining_at

-- name: bell_due
-- The groups that have something due.
SELECT DISTINCT group_name FROM mainspring_delivery WHERE held_by IS NULL AND due_at <= ?1

-- name: bell_groups
-- The groups of the deliveries that came after this seq.
SELECT DISTINCT group_name FROM mainspring_delivery WHERE seq > ?1

-- name: bell_mark
-- What changes when something may have become due: the last seq handed out, and the rings without a new one.
-- Claims, settles and beats change neither, so that they wake no process.
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'mainspring_delivery'),
       (SELECT value FROM mainspring_counter WHERE name = 'bell')

-- name: bell_ring
UPDATE mainspring_counter SET value = value + 1 WHERE name = 'bell'

-- name: declare_groups
-- ?1 rows of group, app, handler, options and version, ?2 now. What an operator set, as a pause, is not touched (invariant 13).
INSERT INTO mainspring_groups (name, app, handler, options, version, declared_at)
SELECT CELL(d, 0), CELL(d, 1), CELL(d, 2), CELL(d, 3), CELL(d, 4), ?2 FROM json_each(?1) AS d WHERE true
ON CONFLICT (name) DO UPDATE SET handler = excluded.handler, options = excluded.options, version = excluded.version

-- name: declare_kept
-- ?1 groups; ?2 worker, ?3 its start; ?4 after how long a silent one counts no more, ?5 now. Rows of (group, pattern): what others
-- have declared. Only a process that was there all the time can tell that another was silent: after an outage all were.
SELECT DISTINCT CELL(declared, 0), CELL(declared, 1)
FROM mainspring_declaration AS d, json_each(d.declared) AS declared
WHERE CELL(declared, 0) IN (SELECT value FROM json_each(?1))
  AND (d.worker <> ?2 OR d.start_id <> ?3)
  AND (
        d.start_id = ''
        OR d.seen_at >= ?5 - ?4
        OR NOT EXISTS (
            SELECT 1 FROM mainspring_declaration AS judge
            WHERE judge.worker = ?2 AND judge.start_id = ?3 AND ?3 <> '' AND judge.since <= ?5 - ?4
        )
    )

-- name: declare_seen
-- ?1 worker, ?2 its start, ?3 what it declares, ?4 after how long it was away in between, ?5 now.
INSERT INTO mainspring_declaration AS d (worker, start_id, declared, since, seen_at)
VALUES (?1, ?2, ?3, ?5, ?5)
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < ?5 - ?4 THEN ?5 ELSE d.since END, seen_at = ?5, declared = ?3

-- name: declare_subscribe
-- ?1 rows of pattern, group, whether it is wild, and matcher.
INSERT INTO mainspring_subscription (pattern, group_name, wild, matcher)
SELECT CELL(w, 0), CELL(w, 1), CELL(w, 2), CELL(w, 3) FROM json_each(?1) AS w

-- name: declare_unsubscribe
-- ?1 rows of group and pattern.
DELETE FROM mainspring_subscription
WHERE (group_name, pattern) IN (SELECT CELL(w, 0), CELL(w, 1) FROM json_each(?1) AS w)

-- name: declared
-- ?1 groups; ?2 worker, ?3 its start, ?4 what it declares, ?5 how often that is recorded, ?6 now. Rows of (name, app, handler,
-- options, version, patterns, whether it was recorded recently) of the groups that are known.
SELECT
    g.name, g.app, g.handler, g.options, g.version,
    (SELECT json_group_array(s.pattern) FROM mainspring_subscription AS s WHERE s.group_name = g.name),
    EXISTS (
        SELECT 1 FROM mainspring_declaration AS d
        WHERE d.worker = ?2 AND d.start_id = ?3 AND d.declared = ?4 AND d.seen_at > ?6 - ?5
    )
FROM mainspring_groups AS g
WHERE g.name IN (SELECT value FROM json_each(?1))

-- name: deregister_declared
DELETE FROM mainspring_declaration WHERE worker = ?1 AND start_id = ?2 AND start_id <> ''

-- name: deregister_fold
INSERT INTO mainspring_tally (worker, group_name, handled, failed)
SELECT '', group_name, handled, failed FROM mainspring_tally WHERE worker = ?1
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = handled + excluded.handled, failed = failed + excluded.failed

-- name: deregister_tally
DELETE FROM mainspring_tally WHERE worker = ?1

-- name: deregister_worker
DELETE FROM mainspring_worker WHERE name = ?1

-- name: group_delete
DELETE FROM mainspring_groups WHERE name = ?1

-- name: group_deliveries
-- In the order of the indexes: to sort by seq would be to read all of a group for every few of it.
SELECT seq, message_id, join_id FROM mainspring_delivery WHERE held_by IS NULL AND group_name = ?1
UNION ALL
SELECT seq, message_id, join_id FROM mainspring_delivery WHERE held_by IS NOT NULL AND group_name = ?1
LIMIT ?2

-- name: group_retired
-- Unlike a cancelled one, a retired delivery may be held: the run names the holder.
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, error, schedule, source,
    scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, 'cancelled', ?2, ?2,
       -- Its name, without the token of its start.
       CASE WHEN substr(d.held_by, -17, 1) = '~' THEN substr(d.held_by, 1, length(d.held_by) - 17) ELSE d.held_by END, ?3,
       d.schedule,
       RUN_SOURCE(d),
       d.scheduled_for
FROM json_each(?1) AS dropped
CROSS JOIN mainspring_delivery AS d ON d.seq = dropped.value
CROSS JOIN mainspring_message AS m ON m.id = d.message_id

-- name: group_tally_delete
DELETE FROM mainspring_tally WHERE group_name = ?1

-- name: group_there
SELECT app, handler, options FROM mainspring_groups WHERE name = ?1

-- name: group_unsubscribe
DELETE FROM mainspring_subscription WHERE group_name = ?1

-- name: prune_declarations
-- ?1 how long what a silent process has declared is kept, ?2 limit, ?3 now.
DELETE FROM mainspring_declaration
WHERE (worker, start_id) IN (SELECT worker, start_id FROM mainspring_declaration WHERE seen_at < ?3 - ?1 LIMIT ?2)

-- name: prune_workers
-- ?1 how long a silent worker is kept, ?2 limit, ?3 now. Returns their names.
SELECT name FROM mainspring_worker WHERE beat_at < ?3 - ?1 ORDER BY beat_at, name LIMIT ?2

-- name: record
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    source, schedule, scheduled_for
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)

-- name: report
-- ?1 rows of seq, epoch, message id in hexadecimal digits and what is said, ?2 now, ?3 owner.
INSERT INTO mainspring_progress (seq, epoch, at, said)
SELECT d.seq, d.epoch, ?2, json_extract(told.value, '$[3]')
FROM json_each(?1) AS told
CROSS JOIN mainspring_delivery AS d ON d.seq = json_extract(told.value, '$[0]')
WHERE d.epoch = json_extract(told.value, '$[1]')
  AND d.held_by = ?3
  AND hex(d.message_id) = json_extract(told.value, '$[2]')
ON CONFLICT (seq) DO UPDATE SET epoch = excluded.epoch, at = excluded.at, said = excluded.said

-- name: outlook
-- ?1 app, ?2 groups, ?3 now. One row: when there is something to do, or null.
SELECT min(first.at)
FROM (
    SELECT (
        SELECT d.due_at
        FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_ready
        WHERE d.held_by IS NULL AND d.group_name = served.value AND d.priority = level.column1
        ORDER BY d.due_at
        LIMIT 1
    ) AS at
    FROM json_each(?2) AS served
    CROSS JOIN (VALUES (0), (1), (2), (3)) AS level
    WHERE NOT EXISTS (
        SELECT 1 FROM mainspring_groups AS g WHERE g.name = served.value AND g.paused_at IS NOT NULL
    )
    UNION ALL
    SELECT (
        SELECT d.due_at
        FROM mainspring_delivery AS d INDEXED BY mainspring_delivery_held
        WHERE d.held_by IS NOT NULL AND d.group_name = served.value
        ORDER BY d.due_at
        LIMIT 1
    )
    FROM json_each(?2) AS served
    WHERE NOT EXISTS (
        SELECT 1 FROM mainspring_groups AS g WHERE g.name = served.value AND g.paused_at IS NOT NULL
    )
    UNION ALL
    SELECT (
        SELECT s.next_at
        FROM mainspring_schedule AS s INDEXED BY mainspring_schedule_due
        WHERE s.app = ?1 AND s.next_at IS NOT NULL AND s.paused_at IS NULL AND s.retired_at IS NULL
        ORDER BY s.next_at
        LIMIT 1
    )
    WHERE NOT EXISTS (SELECT 1 FROM mainspring_freeze AS f WHERE f.app IN ('', ?1))
    UNION ALL
    SELECT ?3 WHERE EXISTS (SELECT 1 FROM mainspring_joint INDEXED BY mainspring_joint_complete WHERE pending <= 0)
) AS first
