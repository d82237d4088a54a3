-- The inbox.

-- name: inbox_again
UPDATE mainspring_inbox
SET status = ?4, attempts = attempts + 1, changed_at = ?5, hash = coalesce(hash, ?6)
WHERE message_id = ?3 AND source = ?2 AND group_name = ?1

-- name: inbox_browse
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

-- name: inbox_find
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

-- name: inbox_insert
-- Answers a row if nobody has let it in before.
INSERT INTO mainspring_inbox (
    message_id, source, group_name, status, attempts, first_seen_at, changed_at, hash
)
VALUES (?3, ?2, ?1, ?4, 1, ?5, ?5, ?6)
ON CONFLICT (message_id, source, group_name) DO NOTHING
RETURNING attempts

-- name: inbox_mark
-- ?1 group, ?2 source, ?3 message id, ?4 attempt, ?5 status, ?6 error, ?7 now, ?8 when it was let in, or null. One row if that is how it stands now.
-- Attempts only grow, and are the fence: who was let in later is not overruled, nor who was under the same number by a
-- database that was restored. The same said again changes nothing.
UPDATE mainspring_inbox
SET status = ?5, error = ?6, changed_at = CASE WHEN status = ?5 THEN changed_at ELSE ?7 END
WHERE message_id = ?3
  AND source = ?2
  AND group_name = ?1
  AND attempts = ?4
  AND (status = ?5 OR (status = 'processing' AND changed_at = coalesce(?8, changed_at)))
RETURNING attempts

-- name: inbox_mismatch
UPDATE mainspring_inbox SET mismatched_at = ?4 WHERE message_id = ?3 AND source = ?2 AND group_name = ?1

-- name: inbox_read
-- Columns in the order of model.inbox.InboxView.
SELECT
    group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
FROM mainspring_inbox
WHERE message_id = ?3 AND source = ?2 AND group_name = ?1

-- name: inbox_release
UPDATE mainspring_inbox
SET status = 'seen', changed_at = ?4
WHERE message_id = ?3 AND source = ?2 AND group_name = ?1 AND status IN ('processing', 'dead')
RETURNING attempts
