-- ?1 schedules. The latest run of each: one step into the index.
SELECT r.id, r.message_id, r.group_name, r.topic, r.attempt, r.status, r.started_at, r.finished_at, r.node, r.kind,
       r.error, r.traceback, r.output, coalesce(r.source, 'message'), r.schedule, r.scheduled_for
FROM json_each(?1) AS named
CROSS JOIN mainspring_run AS r ON r.id = (
        SELECT max(id) FROM mainspring_run INDEXED BY mainspring_run_schedule WHERE schedule = named.value
    )
