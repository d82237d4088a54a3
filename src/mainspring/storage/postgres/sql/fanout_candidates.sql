-- $1 topic, $2 works, $3 shards, $4 the groups that do them: null where it is not known; $5 how long ago a shard was last
-- noted as there, to be noted again, $6 now.
-- Columns in the order of model.fanout.Candidate, its policy in three; and whether it is to be noted as there.
-- A slice is unfinished while that group has a copy of it to be handled, or nobody subscribes to it yet.
-- LIMIT 1 has every shard looked up by its key: joined at once, all cursors of the topic would be read for each batch.
SELECT
    s.work,
    s.shard,
    coalesce(p.enabled, w.enabled),
    coalesce(p.every, w.every),
    coalesce(p.jitter, w.jitter),
    c.completed,
    c.planned,
    c.unfinished IS TRUE,
    c.seen_at < coalesce($6::timestamptz, statement_timestamp()) - $5::interval IS TRUE
FROM unnest($2::text[], $3::text[], $4::text[]) AS s (work, shard, consumer)
LEFT JOIN LATERAL (
    SELECT
        k.completed,
        k.planned,
        k.seen_at,
        coalesce(
            (
                SELECT true
                FROM mainspring.delivery AS d
                WHERE d.message_id = k.slice_id AND (s.consumer IS NULL OR d.group_name = s.consumer)
                LIMIT 1
            ),
            (SELECT true FROM mainspring.parked AS a WHERE a.message_id = k.slice_id LIMIT 1)
        ) AS unfinished
    FROM mainspring.fanout_cursor AS k
    WHERE k.topic = $1 AND k.work = s.work AND k.shard = s.shard
    LIMIT 1
) AS c ON true
LEFT JOIN LATERAL (
    SELECT f.enabled, f.every, f.jitter
    FROM mainspring.fanout_policy AS f
    WHERE f.topic = $1 AND f.work = s.work AND f.shard = s.shard
    LIMIT 1
) AS p ON true
LEFT JOIN LATERAL (
    SELECT f.enabled, f.every, f.jitter
    FROM mainspring.fanout_policy AS f
    WHERE f.topic = $1 AND f.work = s.work AND f.shard = ''
    LIMIT 1
) AS w ON true
