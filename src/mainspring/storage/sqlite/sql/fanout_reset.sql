DELETE FROM mainspring_fanout_policy WHERE topic = ?1 AND work = ?2 AND shard = ?3 RETURNING 1
