-- $1 ids, $2 limit; $3 status, $4 group, $5 topic, $6 text of the error, $7 key, $8 since, $9 until, $10 text as
-- searchable() has it: each but the status may be null. Columns in the order of model.views.DeliveryView, newest first.
-- A run does not remember its delivery's priority: normal.
SELECT
    r.id, r.message_id, r.group_name, r.topic, m.key, r.status, 2, r.attempt, 0, m.published_at, m.published_at,
    m.published_at, NULL::text, false, NULL::timestamptz, r.error
FROM (SELECT u.id FROM unnest($1::bigint[]) AS u (id) ORDER BY u.id DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.run WHERE id = s.id OFFSET 0) AS r
CROSS JOIN LATERAL (
    SELECT key, published_at, $10::text IS NULL OR position($10 IN mainspring.searchable(payload)) > 0 AS hit
    FROM mainspring.message
    WHERE id = r.message_id
    OFFSET 0
) AS m
WHERE r.status = $3
  AND ($4::text IS NULL OR r.group_name = $4)
  AND ($5::text IS NULL OR r.topic = $5)
  AND ($6::text IS NULL OR position(lower($6) IN lower(r.error)) > 0)
  AND ($7::text IS NULL OR m.key = $7)
  AND ($8::timestamptz IS NULL OR m.published_at >= $8)
  AND ($9::timestamptz IS NULL OR m.published_at < $9)
  AND m.hit
ORDER BY s.id DESC
LIMIT $2
