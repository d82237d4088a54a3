UPDATE mainspring_inbox
SET status = 'seen', changed_at = ?4
WHERE message_id = ?3 AND source = ?2 AND group_name = ?1 AND status IN ('processing', 'dead')
RETURNING attempts
