UPDATE mainspring_inbox SET mismatched_at = ?4 WHERE message_id = ?3 AND source = ?2 AND group_name = ?1
