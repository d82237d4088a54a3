-- A run does not remember its delivery's times: the message's own stands in for them.
SELECT r.id, r.message_id, r.group_name, r.topic, m.key, r.attempt, m.published_at, r.error
FROM mainspring_run AS r
CROSS JOIN mainspring_message AS m ON m.id = r.message_id
-- The plus keeps the index by age out of it: by id the newest come without sorting all of them.
WHERE +r.status = ?1
  AND (?2 IS NULL OR r.id < ?2)
  AND (?3 IS NULL OR r.group_name = ?3)
  AND (?4 IS NULL OR r.topic = ?4)
  AND (?5 IS NULL OR m.key = ?5)
  AND (?6 IS NULL OR instr(lower(coalesce(r.error, '')), lower(?6)))
ORDER BY r.id DESC
LIMIT ?7
