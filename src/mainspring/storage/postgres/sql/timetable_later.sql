-- $1 message ids, $2 when their deliveries start: later than they are due by a jitter, or when an earlier run has ended.
WITH v AS MATERIALIZED (
    SELECT m.id, m.due_at FROM unnest($1::uuid[], $2::timestamptz[]) AS m (id, due_at)
),
parked AS (
    UPDATE mainspring.parked AS p SET due_at = greatest(p.due_at, v.due_at) FROM v
    WHERE p.message_id = v.id AND v.due_at < '9999-12-31 00:00:00+00'
)
UPDATE mainspring.delivery AS d SET due_at = greatest(d.due_at, v.due_at) FROM v WHERE d.message_id = v.id
