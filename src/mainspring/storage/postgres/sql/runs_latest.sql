-- $1 schedules. Columns in the order of model.views.RunView: the latest run of each.
SELECT r.*
FROM unnest($1::text[]) AS s (name)
CROSS JOIN LATERAL (
    SELECT
        id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback,
        output, coalesce(source, 'message'), schedule, scheduled_for
    FROM mainspring.run
    WHERE schedule = s.name
    ORDER BY id DESC
    LIMIT 1
) AS r
