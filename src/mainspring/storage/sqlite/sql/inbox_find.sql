-- ?1 to ?6 as in inbox_browse.sql, ?7 message id. The same of one id, by the key.
SELECT
    group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
FROM mainspring_inbox
WHERE message_id = ?7
  AND (?3 IS NULL OR status = ?3)
  AND (?4 IS NULL OR (status = 'processing' AND changed_at < ?4))
  AND (?5 IS NULL OR changed_at < ?5)
  AND (?1 IS NULL OR group_name = ?1)
  AND (?2 IS NULL OR source = ?2)
ORDER BY changed_at DESC, source, group_name
LIMIT ?6
