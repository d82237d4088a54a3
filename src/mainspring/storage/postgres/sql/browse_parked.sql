-- $1 topic, $2 key, $3 before: each may be null; $4 limit. Columns in the order of model.views.DeliveryView.
SELECT
    p.seq, p.message_id, '', p.topic, p.key, 'parked', p.priority, 0, 0, p.due_at, p.scheduled_for, p.published_at,
    NULL::text, false, false, NULL::timestamptz, NULL::text
FROM mainspring.parked AS p
WHERE ($1::text IS NULL OR p.topic = $1)
  AND ($2::text IS NULL OR p.key = $2)
  AND ($3::bigint IS NULL OR p.seq < $3)
ORDER BY p.seq DESC
LIMIT $4
