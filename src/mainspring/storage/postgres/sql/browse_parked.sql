-- $1 seqs, $2 limit; $3 topic, $4 key, $5 since, $6 until, $7 text as searchable() has it: each may be null. Columns in
-- the order of model.views.DeliveryView, newest first.
SELECT
    p.seq, p.message_id, '', p.topic, p.key, 'parked', p.priority, 0, 0, p.due_at, p.scheduled_for, p.published_at,
    NULL::text, false, NULL::timestamptz, NULL::text
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.parked WHERE seq = s.seq OFFSET 0) AS p
WHERE ($3::text IS NULL OR p.topic = $3)
  AND ($4::text IS NULL OR p.key = $4)
  AND ($5::timestamptz IS NULL OR p.published_at >= $5)
  AND ($6::timestamptz IS NULL OR p.published_at < $6)
  AND (
      $7::text IS NULL
      OR (SELECT position($7 IN mainspring.searchable(m.payload)) > 0 FROM mainspring.message AS m WHERE m.id = p.message_id)
  )
ORDER BY s.seq DESC
LIMIT $2
