-- $1 schedules, $2 limit. Columns in the order of model.views.RunView: the latest runs of each, newest first.
SELECT r.*
FROM unnest($1::text[]) AS s (name)
CROSS JOIN LATERAL (
    SELECT
        id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback,
        output, coalesce(source, 'message'), schedule, scheduled_for
    FROM mainspring.run
    WHERE schedule = s.name
    ORDER BY id DESC
    LIMIT $2
) AS r
ORDER BY r.id DESC
