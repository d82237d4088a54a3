SELECT seq, message_id FROM mainspring_parked WHERE message_id = ?1
