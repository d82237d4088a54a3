SELECT id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
       coalesce(source, 'message'), schedule, scheduled_for
FROM mainspring_run
WHERE message_id = ?1
ORDER BY id
