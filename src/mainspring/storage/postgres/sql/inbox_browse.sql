-- $1 prefix of groups, $2 group, $3 source, $4 status, $5 for how long somebody must have been at it, $6 before: each but
-- the first may be null; $7 limit, $8 now. Columns in the order of model.inbox.InboxView.
WITH found AS (
    (
        SELECT i.*
        FROM mainspring.inbox AS i
        WHERE i.status = 'processing'
          AND ($4::text IS NULL OR $4 = 'processing')
          AND ($5::interval IS NULL OR i.changed_at < coalesce($8::timestamptz, statement_timestamp()) - $5)
          AND ($6::timestamptz IS NULL OR i.changed_at < $6)
          AND ($2::text IS NULL OR i.group_name = $2)
          AND ($3::text IS NULL OR i.source = $3)
          AND starts_with(i.group_name, $1::text)
          AND strpos(substr(i.group_name, length($1::text) + 1), '/') = 0
        ORDER BY i.changed_at DESC, i.message_id, i.source, i.group_name
        LIMIT $7
    )
    UNION ALL
    (
        SELECT i.*
        FROM mainspring.inbox AS i
        WHERE i.status <> 'processing'
          AND ($4::text IS NULL OR i.status = $4)
          AND $5::interval IS NULL
          AND ($6::timestamptz IS NULL OR i.changed_at < $6)
          AND ($2::text IS NULL OR i.group_name = $2)
          AND ($3::text IS NULL OR i.source = $3)
          AND starts_with(i.group_name, $1::text)
          AND strpos(substr(i.group_name, length($1::text) + 1), '/') = 0
        ORDER BY i.changed_at DESC, i.message_id, i.source, i.group_name
        LIMIT $7
    )
)
SELECT
    f.group_name, f.source, f.message_id, f.status, f.attempts, f.first_seen_at, f.changed_at, f.hash, f.error,
    f.mismatched_at
FROM found AS f
ORDER BY f.changed_at DESC, f.message_id, f.source, f.group_name
LIMIT $7
