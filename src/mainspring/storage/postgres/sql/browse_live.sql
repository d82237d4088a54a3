-- $1 state (live, scheduled, ready, running), $2 group, $3 topic, $4 key, $5 before: each but the first may be
-- null; $6 limit, $7 now. Columns in the order of model.views.DeliveryView.
SELECT
    d.seq, d.message_id, d.group_name, m.topic, d.key,
    CASE
        WHEN d.held_by IS NOT NULL THEN 'running'
        WHEN d.due_at <= coalesce($7::timestamptz, statement_timestamp()) THEN 'ready'
        ELSE 'scheduled'
    END,
    d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at, d.held_by,
    d.held_by IS NOT NULL AND d.due_at <= coalesce($7::timestamptz, statement_timestamp()),
    d.cancel_asked, NULL::timestamptz, NULL::text, p.said, p.at
FROM mainspring.delivery AS d
CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = d.message_id OFFSET 0) AS m
LEFT JOIN LATERAL (
    SELECT said, at FROM mainspring.progress WHERE seq = d.seq AND epoch = d.epoch AND d.held_by IS NOT NULL OFFSET 0
) AS p ON true
WHERE CASE $1::text
        WHEN 'running' THEN d.held_by IS NOT NULL
        WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= coalesce($7::timestamptz, statement_timestamp())
        WHEN 'scheduled' THEN d.held_by IS NULL AND d.due_at > coalesce($7::timestamptz, statement_timestamp())
        ELSE true
    END
  AND ($2::text IS NULL OR d.group_name = $2)
  AND ($3::text IS NULL OR m.topic = $3)
  AND ($4::text IS NULL OR d.key = $4)
  AND ($5::bigint IS NULL OR d.seq < $5)
ORDER BY d.seq DESC
LIMIT $6
