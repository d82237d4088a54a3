-- ?1 topic, ?2 [work, shard] pairs, ?3 now. Notes that these shards are there.
UPDATE mainspring_fanout_cursor
SET seen_at = ?3
WHERE topic = ?1
  AND (work, shard) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2))
