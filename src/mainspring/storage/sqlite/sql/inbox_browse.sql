-- ?1 prefix of groups, ?2 group, ?3 source, ?4 status, ?5 since when at the latest somebody must have been at it,
-- ?6 before: each but the first may be null; ?7 limit. Columns in the order of model.inbox.InboxView.
SELECT *
FROM (
    SELECT *
    FROM (
        SELECT
            group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
        FROM mainspring_inbox
        WHERE status = 'processing'
          AND (?4 IS NULL OR ?4 = 'processing')
          AND (?5 IS NULL OR changed_at < ?5)
          AND (?6 IS NULL OR changed_at < ?6)
          AND (?2 IS NULL OR group_name = ?2)
          AND (?3 IS NULL OR source = ?3)
          AND substr(group_name, 1, length(?1)) = ?1
          AND instr(substr(group_name, length(?1) + 1), '/') = 0
        ORDER BY changed_at DESC, message_id, source, group_name
        LIMIT ?7
    )
    UNION ALL
    SELECT *
    FROM (
        SELECT
            group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
        FROM mainspring_inbox
        WHERE status <> 'processing'
          AND (?4 IS NULL OR status = ?4)
          AND ?5 IS NULL
          AND (?6 IS NULL OR changed_at < ?6)
          AND (?2 IS NULL OR group_name = ?2)
          AND (?3 IS NULL OR source = ?3)
          AND substr(group_name, 1, length(?1)) = ?1
          AND instr(substr(group_name, length(?1) + 1), '/') = 0
        ORDER BY changed_at DESC, message_id, source, group_name
        LIMIT ?7
    )
)
ORDER BY changed_at DESC, message_id, source, group_name
LIMIT ?7
