-- A cursor never goes back.
INSERT INTO mainspring_fanout_cursor (topic, work, shard, planned, planned_at, seen_at, slice_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (topic, work, shard) DO UPDATE
SET
    planned = excluded.planned,
    planned_at = excluded.planned_at,
    seen_at = excluded.seen_at,
    slice_id = excluded.slice_id
WHERE planned IS NULL OR planned < excluded.planned
