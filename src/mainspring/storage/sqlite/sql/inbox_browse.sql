-- ?1 group, ?2 source, ?3 status, ?4 since when at the latest somebody must have been at it, ?5 before: each may be
-- null; ?6 limit. Columns in the order of model.inbox.InboxView.
SELECT *
FROM (
    SELECT *
    FROM (
        SELECT
            group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
        FROM mainspring_inbox
        WHERE status = 'processing'
          AND (?3 IS NULL OR ?3 = 'processing')
          AND (?4 IS NULL OR changed_at < ?4)
          AND (?5 IS NULL OR changed_at < ?5)
          AND (?1 IS NULL OR group_name = ?1)
          AND (?2 IS NULL OR source = ?2)
        ORDER BY changed_at DESC, message_id, source, group_name
        LIMIT ?6
    )
    UNION ALL
    SELECT *
    FROM (
        SELECT
            group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
        FROM mainspring_inbox
        WHERE status <> 'processing'
          AND (?3 IS NULL OR status = ?3)
          AND ?4 IS NULL
          AND (?5 IS NULL OR changed_at < ?5)
          AND (?1 IS NULL OR group_name = ?1)
          AND (?2 IS NULL OR source = ?2)
        ORDER BY changed_at DESC, message_id, source, group_name
        LIMIT ?6
    )
)
ORDER BY changed_at DESC, message_id, source, group_name
LIMIT ?6
