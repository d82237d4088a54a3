-- $1 join, $2 after this seq, $3 limit, $4 now. Columns in the order of model.views.DeliveryView.
SELECT
    d.seq, d.message_id, d.group_name, m.topic, d.key,
    CASE
        WHEN d.held_by IS NOT NULL AND d.due_at <= coalesce($4::timestamptz, statement_timestamp()) THEN 'lapsed'
        WHEN d.held_by IS NOT NULL THEN 'running'
        WHEN d.due_at <= coalesce($4::timestamptz, statement_timestamp()) THEN 'ready'
        ELSE 'scheduled'
    END,
    d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at, d.held_by,
    d.cancel_asked, NULL::timestamptz, NULL::text, p.said, p.at
FROM mainspring.delivery AS d
CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = d.message_id OFFSET 0) AS m
LEFT JOIN LATERAL (
    SELECT said, at FROM mainspring.progress WHERE seq = d.seq AND epoch = d.epoch AND d.held_by IS NOT NULL OFFSET 0
) AS p ON true
WHERE d.join_id = $1 AND d.seq > $2::bigint
ORDER BY d.seq
LIMIT $3
