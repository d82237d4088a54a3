SELECT seq, key
FROM mainspring_delivery INDEXED BY mainspring_delivery_held
WHERE held_by IS NOT NULL AND group_name = ?1 AND due_at <= ?2
ORDER BY due_at, seq
LIMIT ?3
