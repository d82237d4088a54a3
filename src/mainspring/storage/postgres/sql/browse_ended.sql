-- $1 status, $2 group, $3 topic, $4 key, $5 text of the error, $6 before: each but the first may be null; $7 limit.
-- Columns in the order of model.views.DeliveryView. A run does not remember its delivery's priority: normal.
SELECT
    r.id, r.message_id, r.group_name, r.topic, m.key, r.status, 2, r.attempt, 0, m.published_at, m.published_at,
    m.published_at, NULL::text, false, false, NULL::timestamptz, r.error
FROM mainspring.run AS r
CROSS JOIN LATERAL (SELECT key, published_at FROM mainspring.message WHERE id = r.message_id OFFSET 0) AS m
WHERE r.status = $1
  AND ($2::text IS NULL OR r.group_name = $2)
  AND ($3::text IS NULL OR r.topic = $3)
  AND ($4::text IS NULL OR m.key = $4)
  AND ($5::text IS NULL OR position(lower($5) IN lower(r.error)) > 0)
  AND ($6::bigint IS NULL OR r.id < $6)
ORDER BY r.id DESC
LIMIT $7
