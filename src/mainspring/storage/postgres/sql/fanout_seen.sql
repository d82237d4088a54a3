-- $1 topic, $2 works, $3 shards, both in rising order, $4 now. Notes that these shards are there. (Inserted, though they are
-- there, because that looks each of them up by its key.)
INSERT INTO mainspring.fanout_cursor (topic, work, shard, seen_at)
SELECT $1, s.work, s.shard, coalesce($4::timestamptz, statement_timestamp())
FROM unnest($2::text[], $3::text[]) AS s (work, shard)
ON CONFLICT (topic, work, shard) DO UPDATE SET seen_at = excluded.seen_at
