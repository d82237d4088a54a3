-- Not RETURNING draining_at IS NOT NULL: some releases of SQLite take that for true.
INSERT INTO mainspring_worker (name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
ON CONFLICT (name) DO UPDATE
SET app = excluded.app, host = excluded.host, pid = excluded.pid, groups = excluded.groups,
    in_hand = excluded.in_hand, bell = excluded.bell, beat_at = excluded.beat_at,
    tripped = excluded.tripped
RETURNING draining_at
