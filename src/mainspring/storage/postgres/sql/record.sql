-- $1 message ids, $2 groups, $3 topics, $4 attempts, $5 statuses, $6 started, $7 finished, $8 nodes, $9 kinds, $10 errors,
-- $11 tracebacks, $12 outputs, $13 sources, $14 schedules, $15 scheduled for: the runs, one per place.
INSERT INTO mainspring.run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output, source,
    schedule, scheduled_for
)
SELECT
    r.message_id, r.group_name, r.topic, r.attempt, r.status, r.started_at, r.finished_at, r.node, r.kind, r.error,
    r.traceback, r.output, r.source, r.schedule, r.scheduled_for
FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[]
) WITH ORDINALITY AS r (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    source, schedule, scheduled_for, position
)
ORDER BY r.position
