-- $1 seqs, $2 limit; $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint, $10 text as
-- searchable() has it: each may be null. Columns in the order of model.views.DeliveryView, newest first.
SELECT
    d.seq, d.message_id, d.group_name, d.topic, d.key, 'dead', d.priority, d.attempt, d.deaths, d.scheduled_for,
    d.scheduled_for, d.published_at, NULL::text, false, d.buried_at, d.error
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.dead WHERE seq = s.seq OFFSET 0) AS d
WHERE ($3::text IS NULL OR d.group_name = $3)
  AND ($4::text IS NULL OR d.topic = $4)
  AND ($5::text IS NULL OR d.key = $5)
  AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
  AND ($7::timestamptz IS NULL OR d.published_at >= $7)
  AND ($8::timestamptz IS NULL OR d.published_at < $8)
  AND ($9::text IS NULL OR d.fingerprint = $9)
  AND (
      $10::text IS NULL
      OR (SELECT position($10 IN mainspring.searchable(m.payload)) > 0 FROM mainspring.message AS m WHERE m.id = d.message_id)
  )
ORDER BY s.seq DESC
LIMIT $2
