-- $1 seqs, $2 limit; $3 state (live, scheduled, ready, running, lapsed, retrying), $4 group, $5 key, $6 held by, $7
-- since, $8 until, $9 topic, $10 text as searchable() has it: each but the state may be null; $11 now. Columns in the
-- order of model.views.DeliveryView, newest first.
SELECT
    d.seq, d.message_id, d.group_name, m.topic, d.key,
    CASE
        WHEN d.held_by IS NOT NULL AND d.due_at <= coalesce($11::timestamptz, statement_timestamp()) THEN 'lapsed'
        WHEN d.held_by IS NOT NULL THEN 'running'
        WHEN d.due_at <= coalesce($11::timestamptz, statement_timestamp()) THEN 'ready'
        ELSE 'scheduled'
    END,
    d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at, d.held_by,
    d.cancel_asked, NULL::timestamptz, NULL::text, p.said, p.at
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.delivery WHERE seq = s.seq OFFSET 0) AS d
CROSS JOIN LATERAL (
    SELECT topic, $10::text IS NULL OR position($10 IN mainspring.searchable(payload)) > 0 AS hit
    FROM mainspring.message
    WHERE id = d.message_id
    OFFSET 0
) AS m
LEFT JOIN LATERAL (
    SELECT said, at FROM mainspring.progress WHERE seq = d.seq AND epoch = d.epoch AND d.held_by IS NOT NULL OFFSET 0
) AS p ON true
WHERE CASE $3::text
        WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > coalesce($11::timestamptz, statement_timestamp())
        WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= coalesce($11::timestamptz, statement_timestamp())
        WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
        WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= coalesce($11::timestamptz, statement_timestamp())
        WHEN 'scheduled' THEN d.held_by IS NULL AND d.due_at > coalesce($11::timestamptz, statement_timestamp())
        ELSE true
    END
  AND ($4::text IS NULL OR d.group_name = $4)
  AND ($5::text IS NULL OR d.key = $5)
  AND ($6::text IS NULL OR d.held_by = $6 OR left(d.held_by, -16) = $6 || '~')
  AND ($7::timestamptz IS NULL OR d.published_at >= $7)
  AND ($8::timestamptz IS NULL OR d.published_at < $8)
  AND ($9::text IS NULL OR m.topic = $9)
  AND m.hit
ORDER BY s.seq DESC
LIMIT $2
