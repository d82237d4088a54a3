SELECT name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped
FROM mainspring_worker ORDER BY name
