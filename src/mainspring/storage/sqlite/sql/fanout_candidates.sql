-- ?1 topic, ?2 [work, shard] pairs, ?3 when a shard was last noted as there, to be noted again, ?4 {work: group that
-- does it}, where it is known. Columns in the order of model.fanout.Candidate, its policy in three; and whether it is to be
-- noted as there. A slice is unfinished while that group has a copy of it to be handled, or nobody subscribes to it yet.
SELECT
    s.work,
    s.shard,
    coalesce(p.enabled, w.enabled),
    coalesce(p.every, w.every),
    coalesce(p.jitter, w.jitter),
    c.completed,
    c.planned,
    EXISTS (
        SELECT 1
        FROM mainspring_delivery AS d
        WHERE d.message_id = c.slice_id AND (g.value IS NULL OR d.group_name = g.value)
    )
    OR EXISTS (SELECT 1 FROM mainspring_parked AS a WHERE a.message_id = c.slice_id),
    coalesce(c.seen_at < ?3, 0)
FROM (
    SELECT json_extract(value, '$[0]') AS work, json_extract(value, '$[1]') AS shard FROM json_each(?2)
) AS s
LEFT JOIN json_each(?4) AS g ON g.key = s.work
LEFT JOIN mainspring_fanout_cursor AS c ON c.topic = ?1 AND c.work = s.work AND c.shard = s.shard
LEFT JOIN mainspring_fanout_policy AS p ON p.topic = ?1 AND p.work = s.work AND p.shard = s.shard
LEFT JOIN mainspring_fanout_policy AS w ON w.topic = ?1 AND w.work = s.work AND w.shard = ''
