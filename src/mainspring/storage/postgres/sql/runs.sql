-- $1 group, $2 before: each may be null; $3 limit. Columns in the order of model.views.RunView, newest first.
SELECT
    id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    coalesce(source, 'message'), schedule, scheduled_for
FROM mainspring.run
WHERE ($1::text IS NULL OR group_name = $1)
  AND ($2::bigint IS NULL OR id < $2)
ORDER BY id DESC
LIMIT $3
