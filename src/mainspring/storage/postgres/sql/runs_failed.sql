-- $1 limit. Columns in the order of model.views.RunView, the last to end first.
SELECT
    id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    coalesce(source, 'message'), schedule, scheduled_for
FROM (
    (SELECT * FROM mainspring.run WHERE status = 'failed' ORDER BY finished_at DESC LIMIT $1)
    UNION ALL
    (SELECT * FROM mainspring.run WHERE status = 'dead' ORDER BY finished_at DESC LIMIT $1)
) AS r
ORDER BY r.finished_at DESC, r.id DESC
LIMIT $1
