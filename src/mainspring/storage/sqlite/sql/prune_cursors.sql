DELETE FROM mainspring_fanout_cursor
WHERE (topic, work, shard) IN (
    SELECT topic, work, shard FROM mainspring_fanout_cursor WHERE seen_at < ?1 ORDER BY seen_at LIMIT ?2
)
