-- ?1 to ?7 as in inbox_browse.sql, ?8 message id. The same of one id, by the key.
SELECT
    group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
FROM mainspring_inbox
WHERE message_id = ?8
  AND (?4 IS NULL OR status = ?4)
  AND (?5 IS NULL OR (status = 'processing' AND changed_at < ?5))
  AND (?6 IS NULL OR changed_at < ?6)
  AND (?2 IS NULL OR group_name = ?2)
  AND (?3 IS NULL OR source = ?3)
  AND substr(group_name, 1, length(?1)) = ?1
  AND instr(substr(group_name, length(?1) + 1), '/') = 0
ORDER BY changed_at DESC, source, group_name
LIMIT ?7
