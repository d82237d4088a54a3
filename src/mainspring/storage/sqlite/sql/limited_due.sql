SELECT seq, key
FROM mainspring_delivery INDEXED BY mainspring_delivery_ready
WHERE held_by IS NULL AND group_name = ?1 AND priority = ?2 AND due_at BETWEEN ?3 AND ?4
ORDER BY due_at, seq
LIMIT ?5
