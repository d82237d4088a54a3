DELETE FROM mainspring_spent
WHERE (group_name, key, until) IN (
    SELECT group_name, key, until FROM mainspring_spent WHERE until <= ?1 ORDER BY until LIMIT ?2
)
