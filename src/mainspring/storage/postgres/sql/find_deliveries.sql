-- $1 message id, $2 now. Columns in the order of model.views.DeliveryView: live and dead by seq, then parked.
SELECT
    d.seq, d.message_id, d.group_name, m.topic, d.key,
    CASE
        WHEN d.held_by IS NOT NULL AND d.due_at <= coalesce($2::timestamptz, statement_timestamp()) THEN 'lapsed'
        WHEN d.held_by IS NOT NULL THEN 'running'
        WHEN d.due_at <= coalesce($2::timestamptz, statement_timestamp()) THEN 'ready'
        ELSE 'scheduled'
    END,
    d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at, d.held_by,
    d.cancel_asked, NULL::timestamptz, NULL::text, p.said, p.at
FROM mainspring.delivery AS d
CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = d.message_id OFFSET 0) AS m
LEFT JOIN LATERAL (
    SELECT said, at FROM mainspring.progress WHERE seq = d.seq AND epoch = d.epoch AND d.held_by IS NOT NULL OFFSET 0
) AS p ON true
WHERE d.message_id = $1
UNION ALL
SELECT
    d.seq, d.message_id, d.group_name, d.topic, d.key, 'dead', d.priority, d.attempt, d.deaths, d.scheduled_for,
    d.scheduled_for, d.published_at, NULL, false, d.buried_at, d.error, NULL, NULL
FROM mainspring.dead AS d
WHERE d.message_id = $1
UNION ALL
SELECT
    p.seq, p.message_id, '', p.topic, p.key, 'parked', p.priority, 0, 0, p.due_at, p.scheduled_for, p.published_at,
    NULL, false, NULL, NULL, NULL, NULL
FROM mainspring.parked AS p
WHERE p.message_id = $1
