-- ?1 rows of seq, epoch, message id in hexadecimal digits and what is said, ?2 now, ?3 owner.
INSERT INTO mainspring_progress (seq, epoch, at, said)
SELECT d.seq, d.epoch, ?2, json_extract(told.value, '$[3]')
FROM json_each(?1) AS told
CROSS JOIN mainspring_delivery AS d ON d.seq = json_extract(told.value, '$[0]')
WHERE d.epoch = json_extract(told.value, '$[1]')
  AND d.held_by = ?3
  AND hex(d.message_id) = json_extract(told.value, '$[2]')
ON CONFLICT (seq) DO UPDATE SET epoch = excluded.epoch, at = excluded.at, said = excluded.said
