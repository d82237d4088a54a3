-- The inbox.

-- name: inbox_again
UPDATE mainspring_inbox
SET status = ?4, attempts = attempts + 1, changed_at = ?5, hash = coalesce(hash, ?6)
WHERE message_id = ?3 AND source = ?2 AND group_name = ?1

-- name: inbox_insert
-- Returns a row if it was not admitted before.
INSERT INTO mainspring_inbox (
    message_id, source, group_name, status, attempts, first_seen_at, changed_at, hash
)
VALUES (?3, ?2, ?1, ?4, 1, ?5, ?5, ?6)
ON CONFLICT (message_id, source, group_name) DO NOTHING
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
