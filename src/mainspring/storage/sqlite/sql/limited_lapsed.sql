SELECT seq, key
FROM mainspring_delivery INDEXED BY mainspring_delivery_held
WHERE held_by IS NOT NULL AND group_name = ?1 AND due_at <= ?2 AND (?4 OR (deaths = 0 AND suspect = 0))
  AND NOT (held_by = ?5 AND seq IN (SELECT value FROM json_each(?6)))
ORDER BY due_at, seq
LIMIT ?3
