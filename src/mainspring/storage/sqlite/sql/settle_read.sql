SELECT d.seq, d.epoch, d.held_by, d.message_id, d.attempt, d.cancel_asked, d.join_id
FROM json_each(?1) AS claimed
CROSS JOIN mainspring_delivery AS d ON d.seq = claimed.value
