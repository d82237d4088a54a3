-- $1 group, $2 topic, $3 key, $4 text of the error, $5 before: each may be null; $6 limit.
-- Columns in the order of model.views.DeliveryView.
SELECT
    d.seq, d.message_id, d.group_name, d.topic, d.key, 'dead', d.priority, d.attempt, d.deaths, d.scheduled_for,
    d.scheduled_for, d.published_at, NULL::text, false, false, d.buried_at, d.error
FROM mainspring.dead AS d
WHERE ($1::text IS NULL OR d.group_name = $1)
  AND ($2::text IS NULL OR d.topic = $2)
  AND ($3::text IS NULL OR d.key = $3)
  AND ($4::text IS NULL OR position(lower($4) IN lower(d.error)) > 0)
  AND ($5::bigint IS NULL OR d.seq < $5)
ORDER BY d.seq DESC
LIMIT $6
