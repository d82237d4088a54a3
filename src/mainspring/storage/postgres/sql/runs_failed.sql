-- $1 prefix of topics: may be null; $2 limit. Columns in the order of model.views.RunView, the last to end first. Not more
-- than the last two thousand of each kind are looked at for those of the prefix.
SELECT
    id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    coalesce(source, 'message'), schedule, scheduled_for
FROM (
    (
        SELECT r.*
        FROM (
            SELECT * FROM mainspring.run WHERE status = 'failed' ORDER BY finished_at DESC LIMIT 2000
        ) AS r
        WHERE $1::text IS NULL OR (starts_with(r.topic, $1) AND strpos(substr(r.topic, length($1) + 1), '/') = 0)
        LIMIT $2
    )
    UNION ALL
    (
        SELECT r.*
        FROM (
            SELECT * FROM mainspring.run WHERE status = 'dead' ORDER BY finished_at DESC LIMIT 2000
        ) AS r
        WHERE $1::text IS NULL OR (starts_with(r.topic, $1) AND strpos(substr(r.topic, length($1) + 1), '/') = 0)
        LIMIT $2
    )
) AS r
ORDER BY r.finished_at DESC, r.id DESC
LIMIT $2
