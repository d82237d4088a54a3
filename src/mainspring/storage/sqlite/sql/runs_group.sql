SELECT id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
       coalesce(source, 'message'), schedule, scheduled_for
FROM mainspring_run
WHERE group_name = ?1 AND (?2 IS NULL OR id < ?2)
ORDER BY id DESC
LIMIT ?3
