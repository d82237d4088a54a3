-- $1 first id, $2 last id, $3 limit, $4 now. Open joins by id: what storage.continuations.view takes, then the oldest member
-- that has not ended, with columns in the order of model.views.DeliveryView, or nulls.
SELECT
    j.id, j.opened_at, j.pending + j.done + j.failed, j.done + j.failed + noted.done + noted.failed,
    j.failed + noted.failed, j.on_done::json ->> 'topic', j.on_done::json ->> 'group', j.on_failed::json ->> 'topic',
    j.on_failed::json ->> 'group', coalesce(j.on_done, j.on_failed)::json ->> 'key',
    coalesce(j.on_done, j.on_failed)::json ->> 'correlation_id', oldest.*
FROM (
    SELECT * FROM mainspring.joint WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3
) AS j
-- What has ended and is not counted yet has ended all the same.
CROSS JOIN LATERAL (
    SELECT coalesce(sum(e.done), 0)::integer AS done, coalesce(sum(e.failed), 0)::integer AS failed
    FROM mainspring.joint_end AS e
    WHERE e.join_id = j.id
) AS noted
LEFT JOIN LATERAL (
    SELECT
        d.seq, d.message_id, d.group_name, m.topic, d.key,
        CASE
            WHEN d.held_by IS NOT NULL AND d.due_at <= coalesce($4::timestamptz, statement_timestamp()) THEN 'lapsed'
            WHEN d.held_by IS NOT NULL THEN 'running'
            WHEN d.due_at <= coalesce($4::timestamptz, statement_timestamp()) THEN 'ready'
            ELSE 'scheduled'
        END,
        d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at, d.held_by,
        d.cancel_asked, NULL::timestamptz, NULL::text, p.said, p.at
    FROM mainspring.delivery AS d
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = d.message_id OFFSET 0) AS m
    LEFT JOIN LATERAL (
        SELECT said, at FROM mainspring.progress WHERE seq = d.seq AND epoch = d.epoch AND d.held_by IS NOT NULL OFFSET 0
    ) AS p ON true
    WHERE d.join_id = j.id
    ORDER BY d.seq
    LIMIT 1
) AS oldest ON true
ORDER BY j.id
