-- $1 message id. Columns in the order of model.views.RunView, oldest first.
SELECT
    id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    coalesce(source, 'message'), schedule, scheduled_for
FROM mainspring.run
WHERE message_id = $1
ORDER BY id
