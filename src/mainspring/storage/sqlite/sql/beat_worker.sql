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
