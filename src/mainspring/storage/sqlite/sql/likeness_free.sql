-- ?1 message id. Its copies that no worker has taken, as cancel_find_id.sql tells them.
SELECT seq, message_id, 0, join_id FROM mainspring_delivery WHERE message_id = ?1 AND epoch = 0 ORDER BY seq
