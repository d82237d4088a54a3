-- ?1 seqs, ?2 owner.
SELECT d.seq, d.epoch, d.message_id, d.cancel_asked
FROM json_each(?1) AS claimed
CROSS JOIN mainspring_delivery AS d ON d.seq = claimed.value
WHERE d.held_by = ?2
