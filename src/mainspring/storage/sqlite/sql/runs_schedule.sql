SELECT id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
       coalesce(source, 'message'), schedule, scheduled_for
FROM mainspring_run INDEXED BY mainspring_run_schedule
WHERE schedule = ?1 AND (?2 IS NULL OR group_name = ?2) AND id < coalesce(?3, 9223372036854775807)
ORDER BY id DESC
LIMIT ?4
