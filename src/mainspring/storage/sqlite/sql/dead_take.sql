DELETE FROM mainspring_dead WHERE message_id = ?1 AND group_name = ?2 RETURNING 1
