SELECT name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped, draining_at, drained_by, drains
FROM mainspring_worker ORDER BY name
