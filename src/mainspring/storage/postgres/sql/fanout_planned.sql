-- $1 topic, $2 works, $3 shards, both in rising order, $4 ids of the slices, $5 window, $6 now.
INSERT INTO mainspring.fanout_cursor AS c (topic, work, shard, planned, planned_at, seen_at, slice_id)
SELECT $1, s.work, s.shard, $5, clock.now, clock.now, s.id
FROM unnest($2::text[], $3::text[], $4::uuid[]) AS s (work, shard, id)
CROSS JOIN (SELECT coalesce($6::timestamptz, statement_timestamp()) AS now) AS clock
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    planned = excluded.planned,
    planned_at = excluded.planned_at,
    seen_at = excluded.seen_at,
    slice_id = excluded.slice_id
-- A cursor never goes back (invariant 18).
WHERE c.planned IS NULL OR c.planned < excluded.planned
