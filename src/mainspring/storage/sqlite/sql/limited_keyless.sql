-- ?1 group, ?2 level, ?3 now, ?4 how many.
SELECT seq
FROM mainspring_delivery INDEXED BY mainspring_delivery_keyless
WHERE held_by IS NULL AND key IS NULL AND group_name = ?1 AND priority = ?2 AND due_at <= ?3
ORDER BY due_at, seq
LIMIT ?4
