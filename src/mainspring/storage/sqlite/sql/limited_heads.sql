-- ?1 group, ?2 key, ?3 ordered, ?4 whether those that wait for another attempt are skipped, ?5 how deep to look, ?6 how many,
-- ?7 now. Of those that nobody holds, the first that are due; under an order the very first, if it is due.
SELECT seq
FROM (
    SELECT seq, due_at
    FROM (
        SELECT seq, due_at, attempt
        FROM mainspring_delivery INDEXED BY mainspring_delivery_keyed
        WHERE held_by IS NULL AND group_name = ?1 AND key = ?2
        ORDER BY seq
        LIMIT ?5
    )
    WHERE due_at <= ?7 OR (?3 AND NOT (?4 AND attempt > 0))
    ORDER BY seq
    LIMIT ?6
)
WHERE due_at <= ?7
ORDER BY seq
