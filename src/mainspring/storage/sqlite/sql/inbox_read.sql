-- Columns in the order of model.inbox.InboxView.
SELECT
    group_name, source, message_id, status, attempts, first_seen_at, changed_at, hash, error, mismatched_at
FROM mainspring_inbox
WHERE message_id = ?3 AND source = ?2 AND group_name = ?1
