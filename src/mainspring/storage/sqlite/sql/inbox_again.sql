UPDATE mainspring_inbox
SET status = ?4, attempts = attempts + 1, changed_at = ?5, hash = coalesce(hash, ?6)
WHERE message_id = ?3 AND source = ?2 AND group_name = ?1
