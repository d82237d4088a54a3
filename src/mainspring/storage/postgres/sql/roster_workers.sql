-- Columns in the order of model.views.WorkerView.
SELECT name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped, draining_at, drained_by, drains
FROM mainspring.worker
ORDER BY name
