-- $1 group, $2 source, $3 status, $4 for how long somebody must have been at it, $5 before: each may be null; $6 limit,
-- $7 now. Columns in the order of model.inbox.InboxView.
WITH found AS (
    (
        SELECT i.*
        FROM mainspring.inbox AS i
        WHERE i.status = 'processing'
          AND ($3::text IS NULL OR $3 = 'processing')
          AND ($4::interval IS NULL OR i.changed_at < coalesce($7::timestamptz, statement_timestamp()) - $4)
          AND ($5::timestamptz IS NULL OR i.changed_at < $5)
          AND ($1::text IS NULL OR i.group_name = $1)
          AND ($2::text IS NULL OR i.source = $2)
        ORDER BY i.changed_at DESC, i.message_id, i.source, i.group_name
        LIMIT $6
    )
    UNION ALL
    (
        SELECT i.*
        FROM mainspring.inbox AS i
        WHERE i.status <> 'processing'
          AND ($3::text IS NULL OR i.status = $3)
          AND $4::interval IS NULL
          AND ($5::timestamptz IS NULL OR i.changed_at < $5)
          AND ($1::text IS NULL OR i.group_name = $1)
          AND ($2::text IS NULL OR i.source = $2)
        ORDER BY i.changed_at DESC, i.message_id, i.source, i.group_name
        LIMIT $6
    )
)
SELECT
    f.group_name, f.source, f.message_id, f.status, f.attempts, f.first_seen_at, f.changed_at, f.hash, f.error,
    f.mismatched_at
FROM found AS f
ORDER BY f.changed_at DESC, f.message_id, f.source, f.group_name
LIMIT $6
