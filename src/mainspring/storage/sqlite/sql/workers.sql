-- What workers report of themselves.

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
-- number, ?12 whether it drains. No row where this very beat was taken already, so that nothing is counted twice.
-- Not RETURNING draining_at IS NOT NULL: some releases of SQLite take that for true.
INSERT INTO mainspring_worker AS w (
    name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped, start_id, beats, drains, draining_at
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12,
    -- The roster had forgotten it.
    CASE WHEN ?12 THEN ?8 END
)
ON CONFLICT (name) DO UPDATE
SET app = excluded.app, host = excluded.host, pid = excluded.pid, groups = excluded.groups,
    in_hand = excluded.in_hand, bell = excluded.bell, beat_at = excluded.beat_at,
    tripped = excluded.tripped, start_id = excluded.start_id, beats = excluded.beats, drains = excluded.drains,
    -- Only the first beat of another start is of one that has begun anew: two may be at work under one name.
    started_at = CASE WHEN w.start_id <> ?10 AND ?11 = 1 THEN ?8 ELSE w.started_at END,
    draining_at = CASE WHEN w.start_id <> ?10 AND ?11 = 1 THEN NULL ELSE w.draining_at END,
    drained_by = CASE WHEN w.start_id <> ?10 AND ?11 = 1 THEN NULL ELSE w.drained_by END
WHERE ?11 = 0 OR w.start_id <> ?10 OR w.beats < ?11
RETURNING draining_at

-- name: farewell_declared
DELETE FROM mainspring_declaration WHERE worker = ?1 AND start_id = ?2 AND start_id <> ''

-- name: farewell_fold
INSERT INTO mainspring_tally (worker, group_name, handled, failed)
SELECT '', group_name, handled, failed FROM mainspring_tally WHERE worker = ?1
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = handled + excluded.handled, failed = failed + excluded.failed

-- name: farewell_tally
DELETE FROM mainspring_tally WHERE worker = ?1

-- name: farewell_worker
DELETE FROM mainspring_worker WHERE name = ?1

-- name: prune_declarations
DELETE FROM mainspring_declaration
WHERE (worker, start_id) IN (SELECT worker, start_id FROM mainspring_declaration WHERE seen_at < ?1 LIMIT ?2)

-- name: prune_workers_read
SELECT name FROM mainspring_worker WHERE beat_at < ?1 ORDER BY beat_at, name LIMIT ?2

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
