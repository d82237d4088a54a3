-- ?1 limit. The last to end first.
SELECT id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
       coalesce(source, 'message'), schedule, scheduled_for
FROM (
    SELECT * FROM (SELECT * FROM mainspring_run WHERE status = 'failed' ORDER BY finished_at DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT * FROM mainspring_run WHERE status = 'dead' ORDER BY finished_at DESC LIMIT ?1)
)
ORDER BY finished_at DESC, id DESC
LIMIT ?1
