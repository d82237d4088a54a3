-- ?1 rows of seq, epoch and what is said, ?2 now.
INSERT INTO mainspring_progress (seq, epoch, at, said)
SELECT d.seq, d.epoch, ?2, json_extract(told.value, '$[2]')
FROM json_each(?1) AS told
CROSS JOIN mainspring_delivery AS d ON d.seq = json_extract(told.value, '$[0]')
WHERE d.epoch = json_extract(told.value, '$[1]') AND d.held_by IS NOT NULL
ON CONFLICT (seq) DO UPDATE SET epoch = excluded.epoch, at = excluded.at, said = excluded.said
