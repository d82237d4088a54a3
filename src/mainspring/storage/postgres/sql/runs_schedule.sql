-- $1 schedule, $2 group, $3 before: the last two may be null; $4 limit. Columns in the order of model.views.RunView, newest first.
SELECT
    id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    coalesce(source, 'message'), schedule, scheduled_for
FROM mainspring.run
WHERE schedule = $1
  AND ($2::text IS NULL OR group_name = $2)
  -- Not written with OR: the index is to begin at the right place.
  AND id < coalesce($3::bigint, 9223372036854775807)
ORDER BY id DESC
LIMIT $4
