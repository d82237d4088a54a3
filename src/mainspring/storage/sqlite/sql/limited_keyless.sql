-- ?1 group, ?2 level, ?3 now, ?4 how many to look at, ?5 how many.
SELECT seq
FROM (
    SELECT seq, key, due_at
    FROM mainspring_delivery INDEXED BY mainspring_delivery_ready
    WHERE held_by IS NULL AND group_name = ?1 AND priority = ?2 AND due_at <= ?3
    ORDER BY due_at, seq
    LIMIT ?4
)
WHERE key IS NULL
ORDER BY due_at, seq
LIMIT ?5
