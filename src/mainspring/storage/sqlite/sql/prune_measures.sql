-- ?1 span, ?2 before when, ?3 limit.
DELETE FROM mainspring_measure
WHERE (span, at, group_name, what, bin) IN (
    SELECT span, at, group_name, what, bin
    FROM mainspring_measure
    WHERE span = ?1 AND at < ?2
    ORDER BY at, group_name, what, bin
    LIMIT ?3
)
